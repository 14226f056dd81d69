//! Requests, and the answers to them.

use super::{Engine, Stop, Trouble};
use crate::confine;
use crate::fork::{self, Forked};
use crate::state::die;
use crate::watch::Watch;
use bugnet_dr::{liveness, process};
use bugnet_format::control::{self, FEW, Hits, Request, Response, Target};
use bugnet_format::regs::RegisterFile;

impl Engine {
    pub(super) fn begin(&mut self) {
        if let Err(why) = self.open().and_then(|()| confine::confine()) {
            self.fail(why);
        }
        self.send(&Response::Ready);
        self.serve();
    }

    fn end(&self) -> ! {
        process::abort(0)
    }

    /// Reports why there is no going on, and ends the process.
    fn fail(&mut self, why: String) -> ! {
        self.send(&Response::Failed(why));
        self.end()
    }

    pub(super) fn send(&mut self, response: &Response) {
        if control::send(&mut self.control, response).is_err() {
            die("the other side of the control socket is gone");
        }
    }

    /// Handles the outcome of [`Self::advance`]: answers, and serves requests, until there is something to execute.
    pub(super) fn settle(&mut self, reached: Result<(), Trouble>) {
        if !self.goes_on(reached) {
            self.serve();
        }
    }

    fn goes_on(&mut self, reached: Result<(), Trouble>) -> bool {
        match reached {
            Ok(()) => return true,
            Err(Trouble::Rearm) => return true,
            Err(Trouble::Failed(why)) => self.fail(why),
            Err(Trouble::Stop(stop)) => self.report(*stop),
        }
        false
    }

    fn report(&mut self, stop: Stop) {
        // What the next instruction is going to find was not written by the last one.
        self.confirm();
        let goes_on = |stop: &Stop| matches!(stop, Stop::Reached | Stop::Hit | Stop::Interrupted);
        let stop = match if goes_on(&stop) { self.settle_next() } else { Ok(()) } {
            Ok(()) | Err(Trouble::Rearm) => stop,
            Err(Trouble::Stop(stop)) => *stop,
            Err(Trouble::Failed(why)) => self.fail(why),
        };
        if !goes_on(&stop) {
            self.over = Some(stop.clone());
        }
        let position = self.position;
        self.context().at = position;
        let counts = self.contexts.iter().map(|context| context.counts(context.at)).sum();
        let regs = Box::new(self.registers());
        let (thread, time, hit) = (self.running as u32, self.time_at(position), self.watching.hit);
        let written = self.written();
        // As long as nobody else writes to the outline: a copy of this process would.
        self.forget_told();
        self.send(&Response::Stopped { stop, thread, at: position, time, hit, regs, counts, written });
    }

    /// Every register, as far as it is known.
    pub(super) fn registers(&mut self) -> RegisterFile {
        let mut regs = self.machine.registers();
        regs.rflags_known &= !liveness::rflags_bits(self.unknown_flags);
        regs
    }

    /// Answers requests until one makes execution go on.
    fn serve(&mut self) {
        loop {
            let Ok(request) = control::receive(&mut self.control) else {
                // The other side has gone: nobody wants to know any more.
                self.end()
            };
            match self.answer(request) {
                Ok(Some(response)) => self.send(&response),
                Ok(None) => return,
                Err(Refusal::Refused(why)) => self.send(&Response::Refused(why)),
                Err(Refusal::NoAnswer) => {}
            }
        }
    }

    /// What is answered; `None` where execution goes on.
    fn answer(&mut self, request: Request) -> Result<Option<Response>, Refusal> {
        Ok(Some(match request {
            Request::Quit => self.end(),
            Request::Next { len } => match self.take_up(len) {
                Ok(()) => Response::Ready,
                Err(why) => self.fail(why),
            },
            Request::ReadMemory { addr, len } => Response::Memory(self.memory.read(addr, len.min(control::MAX_READ))),
            Request::Watch { addr, len } => {
                self.must_be_new("what is watched")?;
                self.memory.watch = Some(Watch::new(addr, len.min(control::MAX_WATCH), &self.code));
                Response::Watching
            }
            Request::Track => {
                self.must_be_new("what is to be kept track of")?;
                if self.tracing.is_some() {
                    return Err(Refusal::Refused(
                        "both would need the FS base: what is traced cannot be kept track of".into(),
                    ));
                }
                self.memory.track();
                Response::Watching
            }
            Request::ReadKnown { addr, len } => {
                let bytes = self.memory.read(addr, len.min(control::MAX_READ));
                let touched = self.memory.touched.as_mut();
                let known = touched
                    .map(|touched| (touched.states(addr, len.min(control::MAX_READ) as usize), touched.changes()));
                let (states, changes) = known.unwrap_or_default();
                Response::Known { bytes, states, changes }
            }
            Request::KnownPages { from } => {
                Response::Pages(self.memory.touched.as_mut().map_or(Vec::new(), |touched| touched.pages_from(from)))
            }
            Request::Left { from } => {
                let mut touched = self.memory.touched.take().ok_or_else(untracked)?;
                let (pages, next) = touched.left(&self.memory, &self.executed.lines(), from, control::MAX_PAGES);
                self.memory.touched = Some(touched);
                Response::Left { pages, next }
            }
            Request::Foresee => {
                self.memory.touched.as_mut().ok_or_else(untracked)?.begin_anew();
                Response::Ready
            }
            Request::Found { from } => {
                let mut touched = self.memory.touched.take().ok_or_else(untracked)?;
                let (pages, next) = touched.found(&self.memory, from, control::MAX_PAGES);
                self.memory.touched = Some(touched);
                Response::Left { pages, next }
            }
            Request::Unseen => Response::Unseen(self.memory.touched.as_ref().ok_or_else(untracked)?.unseen()),
            Request::Trace(wanted) => {
                self.begin_tracing(wanted).map_err(Refusal::Refused)?;
                Response::Ready
            }
            Request::Traced { blocks, odd } => self.traced(blocks as usize, odd as usize).map_err(Refusal::Refused)?,
            Request::Turns(turns) => {
                self.take_turns(turns).unwrap_or_else(|why| self.fail(why));
                return Err(Refusal::NoAnswer);
            }
            Request::Look(looked) => {
                self.begin_looking(looked).map_err(Refusal::Refused)?;
                Response::Ready
            }
            Request::Shade(shades) => {
                self.take_shades(shades).map_err(Refusal::Refused)?;
                Response::Ready
            }
            Request::Suspects { from, blocks } => match self.keeper.as_ref().and_then(|keeper| keeper.failed.clone()) {
                Some(why) => return Err(Refusal::Refused(why)),
                None => self.suspects(from as usize, blocks as usize),
            },
            Request::Mark => {
                self.must_be_new("what is to be marked")?;
                self.begin_marking().map_err(Refusal::Refused)?;
                Response::Ready
            }
            Request::Lines { from } => self.lines(from as usize).ok_or_else(untracked)?,
            Request::Writers => {
                Response::Writers(self.memory.watch.as_ref().map_or(Vec::new(), |watch| watch.writers().to_vec()))
            }
            Request::Compare { explain, rooms } => {
                self.begin_comparing(explain, &rooms).map_err(Refusal::Refused)?;
                Response::Ready
            }
            Request::Patches { from } => match &self.compare {
                Some(compare) => Response::Patches(compare.patches.from(from)),
                None => return Err(Refusal::Refused("nothing is compared".into())),
            },
            Request::Patch { patches, until } => {
                self.take_patches(until, patches).map_err(Refusal::Refused)?;
                Response::Ready
            }
            Request::Compared => match &mut self.compare {
                Some(compare) => Response::Compared(Box::new(compare.found().clone())),
                None => return Err(Refusal::Refused("nothing was compared".into())),
            },
            Request::Conditions(conditions) => {
                self.set_conditions(conditions).map_err(Refusal::Refused)?;
                Response::Ready
            }
            Request::Glance { ranges } => Response::Glanced(self.glance(ranges).map_err(Refusal::Refused)?),
            Request::Fork => match fork::fork(&self.control).map_err(Refusal::Refused)? {
                Forked::Parent => Response::Forked,
                Forked::Copy => Response::Ready,
            },
            Request::Registers { thread } => self.registers_of(thread as usize)?,
            Request::Interrupt => return Err(Refusal::NoAnswer),
            Request::RunTo { target, hits, output } => {
                let reached = self.run_to(target, hits, output)?;
                return if self.goes_on(reached) { Ok(None) } else { Err(Refusal::NoAnswer) };
            }
        }))
    }

    fn must_be_new(&self, what: &str) -> Result<(), Refusal> {
        if self.sites.is_empty() {
            return Ok(());
        }
        Err(Refusal::Refused(format!("{what} must be said before anything is run")))
    }

    fn registers_of(&mut self, thread: usize) -> Result<Response, Refusal> {
        let (running, position) = (self.running, self.position);
        let regs = self.registers();
        let Some(context) = self.contexts.get(thread) else { return Err(no_thread(thread)) };
        let (at, regs) = if thread == running { (position, regs) } else { (context.at, context.regs.clone()) };
        Ok(Response::Registers { at, over: context.over, regs: Box::new(regs), counts: context.counts(at) })
    }

    fn run_to(&mut self, target: Target, hits: Hits, output: bool) -> Result<Result<(), Trouble>, Refusal> {
        let (running, position, time) = (self.running, self.position, self.time_at(self.position));
        self.context().at = position;
        let passed = match target {
            Target::Place { thread, at } => {
                let context = self.contexts.get(thread as usize).ok_or_else(|| no_thread(thread as usize))?;
                (at < context.at).then(|| format!("instruction {at}: the thread is at {} already", context.at))
            }
            Target::Time(asked) => {
                (asked < time).then(|| format!("instruction {asked} of all: it is at {time} already"))
            }
            Target::End => None,
        };
        if let Some(stop) = self.over.clone() {
            return Ok(Err(stop.into()));
        }
        if self.patches.as_ref().is_some_and(|patches| !patches.reach(target)) {
            return Err(Refusal::Refused("there are no patches for so far".into()));
        }
        if let Some(passed) = passed {
            return Err(Refusal::Refused(format!("cannot run to {passed}")));
        }
        // Of what is executed, a trace and marks tell no flags: where these do not matter to the program, nobody needs them.
        let are_shown = self.tracing.is_none() && !self.marks_lines();
        if are_shown && (target != Target::End || hits != Hits::Ignore) {
            self.keep_flags();
        }
        self.memory.runs(self.compare.is_none());
        self.has_conflict();
        self.point_fs();
        self.empty_trace();
        self.forget_suspects();
        let is_short = match target {
            Target::Time(asked) => asked.saturating_sub(time) <= FEW,
            Target::Place { thread, at } => thread as usize == running && at.saturating_sub(position) <= FEW,
            Target::End => false,
        };
        self.fit_style(is_short);
        (self.target, self.output, self.looked, self.is_new) = (target, output, time, false);
        self.watching.begin(hits, target, running, position);
        Ok(self.advance())
    }

    /// Something comes on the control socket while the program runs.
    pub(super) fn take_interrupt(&mut self) -> Result<(), Trouble> {
        match control::receive(&mut self.control) {
            Ok(Request::Interrupt) => Err(Stop::Interrupted.into()),
            Ok(_) => Err(Trouble::Failed("a request came while another one was being served".into())),
            // Nobody wants to know any more.
            Err(_) => self.end(),
        }
    }
}

fn untracked() -> Refusal {
    Refusal::Refused("nothing keeps track of what is known".into())
}

fn no_thread(thread: usize) -> Refusal {
    Refusal::Refused(format!("there is no thread {thread}"))
}

/// Why a request is not answered in the usual way.
enum Refusal {
    /// It cannot be done.
    Refused(String),
    /// It was answered already, or wants no answer.
    NoAnswer,
}
