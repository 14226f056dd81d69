//! Where two threads part, told in terms of the source.

use super::decided::{Decided, decided};
use crate::path::align::Parting;
use crate::path::trail::Step;
use crate::runs::both::{BAD, Both, GOOD};
use crate::runs::retrace::{Last, retrace};
use crate::runs::scene::{Differing, Scene, Spot, differing};
use crate::runs::side::Moment;
use bugnet_events::effects::Control;
use bugnet_format::types::Tid;
use bugnet_replay::Result;
use serde::Serialize;

/// What two threads part at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// A conditional branch.
    Branch,
    /// A jump whose target is computed.
    Jump,
    /// A call whose target is computed.
    Call,
    /// A return.
    Return,
    /// Code of others, which called the program's own, or came back to it, at different places.
    Library,
    /// One of the two ends.
    End,
    /// Something from outside: a signal.
    Outside,
    /// Their first instruction.
    Start,
}

/// Where two threads part.
#[derive(Clone, Debug, Serialize)]
pub struct Parted {
    /// What they part at.
    pub at: At,
    /// Where that is: the last instruction of the program's own code that both execute.
    pub spot: Spot,
    /// The text of the line.
    pub text: Option<String>,
    /// The function that had called this one, with the line.
    pub caller: Option<String>,
    /// The code of others in which they part.
    pub library: Option<Spot>,
    /// What decided; none where that is not known.
    pub decided: Option<Decided>,
    /// Variables in scope that have other values.
    pub variables: Vec<Differing>,
    /// The way of the right run.
    pub good: Way,
    /// The way of the wrong run.
    pub bad: Way,
    /// Where they come together again; none if they do not.
    pub again: Option<Spot>,
    /// How often these threads part there and come together again.
    pub times: u64,
    /// Instructions that the threads have executed before, in each run.
    #[serde(skip)]
    pub counts: [u64; 2],
}

/// Where a thread goes.
#[derive(Clone, Debug, Serialize)]
pub struct Way {
    /// Before the last instruction that both execute.
    #[serde(flatten)]
    pub moment: Moment,
    /// Where it goes on in the program's own code; none if it ends.
    pub to: Option<Spot>,
    /// Instructions until they come together again.
    pub instructions: Option<u64>,
}

impl Both<'_> {
    /// A place in the code, of a step of one of the runs.
    fn spot_of(&mut self, side: usize, thread: Tid, step: Step) -> Result<Spot> {
        let run = &mut self.sides[side];
        run.go(thread, step.count)?;
        let at = run.cursor.regs().rip;
        Ok(Spot::of(&mut run.symbols, at))
    }

    /// Whether threads part in a function of the system's sources, as the compiler makes of templates.
    pub fn is_systems(&mut self, parting: &Parting) -> bool {
        let Some([_, last]) = parting.last else { return false };
        let side = &mut self.sides[BAD];
        let address = side.recorded.objects.address(&self.codes.all()[last.code as usize]);
        address.is_some_and(|at| Spot::of(&mut side.symbols, at).is_systems())
    }

    /// Tells of a parting of two threads, which part there so often.
    ///
    /// # Errors
    /// The logs cannot be replayed.
    pub fn tell(&mut self, threads: [Tid; 2], parting: &Parting, times: u64) -> Result<Parted> {
        let mut last = Vec::new();
        for side in [GOOD, BAD] {
            let recorded = &self.sides[side].recorded;
            let from = parting.last.map_or(0, |both| both[side].count);
            let until = match parting.next[side] {
                Some(step) => step.count,
                None => recorded.end(threads[side])?,
            };
            // What is compared may be in a step before.
            last.push(retrace(recorded, threads[side], from.saturating_sub(BEFORE), until)?);
        }
        let at = at(parting, &last);
        let count = |side: usize| {
            let did = last[side].own.back();
            did.map_or_else(|| parting.next[side].map_or(0, |step| step.count), |did| did.count)
        };
        let counts = [count(GOOD), count(BAD)];
        let other = last[BAD].other.or(last[GOOD].other).filter(|_| matches!(at, At::Library | At::End));
        let library = other.map(|at| Spot::of(&mut self.sides[BAD].symbols, at));
        let is_decided = matches!(at, At::Branch | At::Jump | At::Call | At::Return);
        let did = last.into_iter().map(|last| last.own).collect::<Vec<_>>();
        let decided = match <[_; 2]>::try_from(did) {
            Ok(did) if is_decided => decided(&mut self.sides, threads, &did)?,
            _ => None,
        };
        let (mut moments, mut scenes, mut spot) = (Vec::new(), Vec::new(), Spot::default());
        for side in [GOOD, BAD] {
            let run = &mut self.sides[side];
            moments.push(run.go(threads[side], counts[side])?);
            scenes.push(Scene::of(run)?);
            // The right run's, which goes on: of one that ends, the last instruction may be another one.
            if side == GOOD || parting.next[GOOD].is_none() {
                let at = run.cursor.regs().rip;
                spot = Spot::of(&mut run.symbols, at);
            }
        }
        let scenes = <[Scene; 2]>::try_from(scenes).unwrap_or_default();
        let variables = differing(&scenes);
        let Scene { caller, text, .. } = scenes[GOOD].clone();
        let again = match parting.again {
            Some(both) => Some(self.spot_of(BAD, threads[BAD], both[BAD])?),
            None => None,
        };
        let mut ways = Vec::new();
        for (side, moment) in moments.into_iter().enumerate() {
            let to = match parting.next[side] {
                Some(step) => Some(self.spot_of(side, threads[side], step)?),
                None => None,
            };
            let instructions = parting.again.map(|both| both[side].count - counts[side]);
            ways.push(Way { moment, to, instructions });
        }
        let [good, bad] = <[Way; 2]>::try_from(ways).unwrap_or_else(|_| unreachable!("there are two"));
        Ok(Parted { at, spot, text, caller, library, decided, variables, good, bad, again, times, counts })
    }
}

/// Instructions before the last step that are looked at for what was compared.
const BEFORE: u64 = 60;

fn at(parting: &Parting, last: &[Last]) -> At {
    if parting.last.is_none() {
        return At::Start;
    }
    if parting.next.iter().any(Option::is_none) {
        return At::End;
    }
    if last.iter().any(|last| last.other.is_some()) {
        return At::Library;
    }
    match last[BAD].own.back().map(|did| did.decoded.control) {
        Some(Control::Branch) => At::Branch,
        Some(Control::Jump) => At::Jump,
        Some(Control::Call) => At::Call,
        Some(Control::Return) => At::Return,
        _ => At::Outside,
    }
}
