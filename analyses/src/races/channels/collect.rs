//! From calls to objects: who has written to what, and who has read from it.

use super::calls::{Amount, Does, Kind, Pair, does};
use super::descriptors::{Descriptors, End, Resolved};
use super::moments::{Call, Moment};
use super::objects::{Flow, Object};
use bugnet_replay::Result;
use hashbrown::HashMap;
use std::rc::Rc;

/// What memory has where a call is made.
pub trait Memory {
    /// The two descriptors that a call has put there, if it is known.
    fn pair(&mut self, at: &Moment, addr: u64) -> Result<Option<[i32; 2]>>;
    /// Whether a message that is sent has more than bytes, or may have.
    fn has_more(&mut self, at: &Moment, addr: u64) -> Result<bool>;
}

/// What one has collected.
#[derive(Default)]
pub struct Collected {
    /// The objects, of which some may be nobody's.
    pub objects: Vec<Object>,
    /// Why it is not certain what goes where; all is certain if there is nothing.
    pub clouds: Vec<&'static str>,
    /// Where threads have waited for any of several descriptors.
    pub waits: Vec<Moment>,
    /// Whether anything can connect to a socket of the process.
    pub listens: bool,
    descriptors: Descriptors,
    pools: HashMap<Pool, usize>,
    /// By descriptor and moment, what it was copied from.
    copies: Vec<(i32, Moment, End)>,
}

/// Objects of which one stands for several that may be the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pool {
    Files(Rc<str>),
    Sockets {
        is_local: bool,
    },
    Signals,
    /// A descriptor that was there before; those from 3 on may be ends of the same.
    Inherited(i32),
}

impl Collected {
    /// Looks at all calls. `is_thread` says whether what a call has made is a thread.
    ///
    /// # Errors
    /// Memory cannot be looked at.
    pub fn of(calls: &[Call], is_thread: impl Fn(i64) -> bool, memory: &mut impl Memory) -> Result<Self> {
        let mut all = Self::default();
        for call in calls {
            if let Some(does) = does(call.number, &call.args, call.result) {
                all.learn(call, does, memory)?;
            }
        }
        for (from, moment, end) in std::mem::take(&mut all.copies) {
            if all.descriptors.resolve(from, &moment) != Resolved::One(end) {
                all.cloud("descriptors that are copied while others close them");
            }
        }
        for end in all.descriptors.all() {
            if let Some(object) = end.writes {
                all.objects[object].writers += 1;
            }
        }
        for call in calls {
            if let Some(does) = does(call.number, &call.args, call.result) {
                all.follow(call, does, &is_thread, memory)?;
            }
        }
        Ok(all)
    }

    fn cloud(&mut self, why: &'static str) {
        if !self.clouds.contains(&why) {
            self.clouds.push(why);
        }
    }

    fn add(&mut self, name: String, flow: Flow) -> usize {
        let mut object = Object::default();
        (object.name, object.flow, object.is_waited_for) = (name, flow, true);
        self.objects.push(object);
        self.objects.len() - 1
    }

    fn pool(&mut self, pool: Pool) -> usize {
        if let Some(known) = self.pools.get(&pool) {
            return *known;
        }
        let name = match &pool {
            Pool::Files(name) => format!("files named {name}"),
            Pool::Sockets { .. } => "sockets that the program connects with its own".into(),
            Pool::Signals => "signals that are read from a descriptor".into(),
            Pool::Inherited(0) => "descriptor 0".into(),
            Pool::Inherited(1) => "descriptors 1 and 2".into(),
            Pool::Inherited(_) => "descriptors of which the log does not say what they are".into(),
        };
        let number = self.add(name, Flow::Unknown);
        self.objects[number].is_waited_for = !matches!(pool, Pool::Files(_));
        self.objects[number].is_of_sockets = matches!(pool, Pool::Sockets { .. });
        self.objects[number].carries_descriptors =
            matches!(pool, Pool::Sockets { is_local: true } | Pool::Inherited(_));
        self.pools.insert(pool, number);
        number
    }

    /// What descriptors are.
    fn learn(&mut self, call: &Call, does: Does, memory: &mut impl Memory) -> Result<()> {
        let moment = &call.moment;
        match does {
            Does::Pair { addr, pair } => {
                // Nobody can have used what was never read.
                if let Some(fds) = memory.pair(moment, addr)? {
                    self.pair(fds, pair, moment);
                }
            }
            Does::Opens { fd, kind } => {
                let end = self.kind(fd, kind, call.path.as_ref());
                self.descriptors.open(fd, end, moment);
            }
            Does::Accepts { listening, fd } => {
                let end = self.known(listening, moment);
                self.descriptors.open(fd, end, moment);
            }
            Does::Copies { from, to } => {
                let end = self.known(from, moment);
                if from != to {
                    if self.descriptors.open_ones(to..=to).is_empty() {
                        self.known(to, moment);
                    }
                    self.close(to, moment);
                    self.descriptors.open(to, end, moment);
                    self.copies.push((from, moment.clone(), end));
                }
            }
            Does::Closes { first, last } if first == last => {
                if self.descriptors.open_ones(first..=last).is_empty() {
                    self.known(first, moment);
                }
                self.close(first, moment);
            }
            Does::Closes { first, last } => {
                for fd in self.descriptors.open_ones(first..=last) {
                    self.close(fd, moment);
                }
            }
            Does::Listens => self.listens = true,
            Does::Clouds(why) => self.cloud(why),
            _ => {}
        }
        Ok(())
    }

    /// What a descriptor is, which was there before if nobody has given it.
    fn known(&mut self, fd: i32, moment: &Moment) -> End {
        match self.descriptors.resolve(fd, moment) {
            Resolved::One(end) => end,
            Resolved::None => {
                // Standard input is not taken for the other end of standard output.
                let pool = Some(self.pool(Pool::Inherited(match fd {
                    0 => 0,
                    1 | 2 => 1,
                    _ => 3,
                })));
                let end = End { reads: pool, writes: pool };
                self.descriptors.inherit(fd, end);
                end
            }
            Resolved::Several => {
                self.cloud("descriptors that several threads open and close at the same time");
                End::default()
            }
        }
    }

    fn close(&mut self, fd: i32, moment: &Moment) {
        if let Some(object) = self.descriptors.close(fd, moment).and_then(|end| end.writes) {
            self.objects[object].close(moment.clone());
        }
    }

    fn pair(&mut self, fds: [i32; 2], pair: Pair, moment: &Moment) {
        let (what, flow) = match pair {
            Pair::Pipe => ("pipe", Flow::Bytes),
            Pair::Stream => ("pair of sockets", Flow::Bytes),
            Pair::Messages => ("pair of sockets", Flow::Messages),
        };
        let name = format!("a {what}, descriptors {} and {}", fds[0], fds[1]);
        let to_first = self.add(name.clone(), flow);
        let ends = if pair == Pair::Pipe {
            [End { reads: Some(to_first), writes: None }, End { reads: None, writes: Some(to_first) }]
        } else {
            let to_second = self.add(name, flow);
            [to_first, to_second].into_iter().for_each(|object| self.objects[object].carries_descriptors = true);
            [
                End { reads: Some(to_first), writes: Some(to_second) },
                End { reads: Some(to_second), writes: Some(to_first) },
            ]
        };
        for (fd, end) in fds.into_iter().zip(ends) {
            self.descriptors.open(fd, end, moment);
        }
    }

    fn kind(&mut self, fd: i32, kind: Kind, path: Option<&Rc<str>>) -> End {
        let object = match kind {
            Kind::Event { is_semaphore, initial } => {
                let flow = if is_semaphore { Flow::Semaphore } else { Flow::Counter };
                let object = self.add(format!("an eventfd, descriptor {fd}"), flow);
                self.objects[object].initial = if is_semaphore { initial } else { initial.min(1) };
                object
            }
            Kind::Memory => {
                let object = self.add(format!("memory of descriptor {fd}"), Flow::Unknown);
                self.objects[object].is_waited_for = false;
                object
            }
            Kind::File => {
                let path = path.map_or("?", |path| &**path);
                if ["/proc/", "/dev/fd", "/dev/std"].iter().any(|start| path.starts_with(start)) && path.contains("/fd")
                {
                    self.cloud("descriptors that are opened by their numbers");
                }
                self.pool(Pool::Files(path.rsplit('/').next().unwrap_or(path).into()))
            }
            Kind::Signals => self.pool(Pool::Signals),
            Kind::Socket { is_local } => self.pool(Pool::Sockets { is_local }),
            Kind::Other => return End::default(),
        };
        End { reads: Some(object), writes: Some(object) }
    }

    /// What goes through them.
    fn follow(
        &mut self,
        call: &Call,
        does: Does,
        is_thread: &impl Fn(i64) -> bool,
        memory: &mut impl Memory,
    ) -> Result<()> {
        let moment = &call.moment;
        match does {
            Does::Moves { from, to, amount } => {
                let from = from.and_then(|fd| self.known(fd, moment).reads);
                let to = to.and_then(|fd| self.known(fd, moment).writes);
                if let Some(object) = from {
                    self.objects[object].take(moment, amount);
                }
                if let Some(object) = to {
                    self.objects[object].give(moment, amount);
                    if self.sends_more(call, object, memory)? {
                        self.cloud("descriptors that are sent in messages");
                    }
                }
            }
            Does::Connects { fd } => {
                let end = self.known(fd, moment);
                end.writes.into_iter().for_each(|object| self.objects[object].give(moment, Amount::Unknown));
            }
            Does::Accepts { listening, .. } => {
                let end = self.known(listening, moment);
                end.reads.into_iter().for_each(|object| self.objects[object].take(moment, Amount::Unknown));
            }
            Does::ShutsDown { fd } => {
                if let Some(object) = self.known(fd, moment).writes {
                    self.objects[object].is_shut = true;
                    self.objects[object].close(moment.clone());
                }
            }
            Does::Waits => self.waits.push(moment.clone()),
            Does::Signals => {
                let signals = self.pool(Pool::Signals);
                self.objects[signals].give(moment, Amount::Unknown);
            }
            Does::Forks { child } if !is_thread(child) => {
                for end in self.descriptors.at(moment).collect::<Vec<_>>() {
                    for object in [end.reads, end.writes].into_iter().flatten() {
                        self.objects[object].leaves.push(moment.clone());
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a call sends descriptors, or may do so.
    fn sends_more(&self, call: &Call, object: usize, memory: &mut impl Memory) -> Result<bool> {
        match call.number.cast_signed() {
            libc::SYS_sendmsg if self.objects[object].carries_descriptors => {
                memory.has_more(&call.moment, call.args[1])
            }
            libc::SYS_sendmmsg => Ok(self.objects[object].carries_descriptors),
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Descriptors 5 and 6 come from each pair.
    struct Pairs;

    impl Memory for Pairs {
        fn pair(&mut self, _: &Moment, _: u64) -> Result<Option<[i32; 2]>> {
            Ok(Some([5, 6]))
        }

        fn has_more(&mut self, _: &Moment, _: u64) -> Result<bool> {
            Ok(false)
        }
    }

    /// Calls, each of a thread that has seen all that was called before: thread, number, arguments, result.
    fn collected(made: &[(usize, i64, [u64; 3], i64)]) -> Collected {
        let mut now = [0_u64; 2];
        let mut calls = Vec::new();
        for &(thread, number, [a, b, c], result) in made {
            let moment = Moment { thread, count: now[thread], before: now.into() };
            now[thread] += 1;
            let args = [a, b, c, 0, 0, 0];
            calls.push(Call { moment, number: number.cast_unsigned(), args, result: Some(result), path: None });
        }
        Collected::of(&calls, |id| id == 1, &mut Pairs).unwrap()
    }

    fn connected(collected: &Collected) -> Vec<(&str, Flow)> {
        let objects = collected.objects.iter().filter(|object| object.connects());
        objects.map(|object| (object.name.as_str(), object.flow)).collect()
    }

    #[test]
    fn copies_are_the_same() {
        let found = collected(&[
            (0, libc::SYS_pipe, [0; 3], 0),
            (0, libc::SYS_dup, [6, 0, 0], 7),
            (0, libc::SYS_close, [6, 0, 0], 0),
            (0, libc::SYS_write, [7, 0, 1], 1),
            (1, libc::SYS_read, [5, 0, 1], 1),
        ]);
        assert_eq!(connected(&found), [("a pipe, descriptors 5 and 6", Flow::Bytes)]);
        assert!(found.clouds.is_empty());
    }

    #[test]
    fn what_was_there_before_may_be_the_same() {
        let found = collected(&[(0, libc::SYS_write, [9, 0, 1], 1), (1, libc::SYS_read, [8, 0, 1], 1)]);
        assert_eq!(connected(&found), [("descriptors of which the log does not say what they are", Flow::Unknown)]);
        let found = collected(&[(0, libc::SYS_write, [1, 0, 1], 1), (1, libc::SYS_read, [0, 0, 1], 1)]);
        assert_eq!(connected(&found), []);
    }

    #[test]
    fn other_processes_get_what_is_open() {
        let fork = |child| {
            let found = collected(&[
                (0, libc::SYS_pipe, [0; 3], 0),
                (0, libc::SYS_fork, [0; 3], child),
                (0, libc::SYS_write, [6, 0, 1], 1),
                (1, libc::SYS_read, [5, 0, 1], 1),
            ]);
            found.objects.iter().filter(|object| object.connects()).map(|object| object.leaves.len()).sum::<usize>()
        };
        assert_eq!([fork(1), fork(77)], [0, 2]);
    }

    #[test]
    fn some_calls_make_nothing_certain() {
        assert_eq!(collected(&[(0, libc::SYS_io_uring_setup, [0; 3], 4)]).clouds.len(), 1);
    }
}
