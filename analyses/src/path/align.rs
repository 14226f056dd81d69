//! Two paths through the same program, put side by side: where they part, and where they come together again.
//!
//! Paths go together as long as they do the same in the same call. Where they part, they come together again at the first code that both
//! come to in the call in which they parted, or in one around it, once that has returned; whatever lies deeper does not count. Of several
//! such places, the one that takes the fewest steps is meant; of those that take as many, the one that lies farthest ahead in the code,
//! since a loop's body lies before what comes behind the loop.

use super::trail::Step;
use std::collections::HashMap;

/// Paths go together here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together {
    /// The first step's index on each path.
    pub from: [u64; 2],
    /// How many steps.
    pub steps: u64,
}

/// Paths part here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parting {
    /// The last step that they have in common, on each path; none where they have none.
    pub last: Option<[Step; 2]>,
    /// The next one of each; none where it ends.
    pub next: [Option<Step>; 2],
    /// The step at which they come together again.
    pub again: Option<[Step; 2]>,
}

/// What happens again and again counts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parted {
    /// The first time.
    pub first: Parting,
    /// How often paths part behind this code.
    pub times: u64,
}

/// Two paths, side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alignment {
    /// Where they go together.
    pub together: Vec<Together>,
    /// Where they part, in the order of the first times, by the code behind which they do; those alone from which they come together
    /// again.
    pub parted: Vec<Parted>,
    /// Where they part for good; none if both end at the same place.
    pub last: Option<Parting>,
}

impl Alignment {
    /// How often paths part and come together again.
    #[must_use]
    pub fn times(&self) -> u64 {
        self.parted.iter().map(|parted| parted.times).sum()
    }

    /// The first parting of all.
    #[must_use]
    pub fn first(&self) -> Option<Parting> {
        self.parted.first().map(|parted| parted.first).or(self.last)
    }
}

/// Puts two paths side by side; `address` says where code lies.
pub fn align<W: Iterator<Item = Step> + Clone>(paths: [W; 2], address: impl Fn(u32) -> u64) -> Alignment {
    let [mut good, mut bad] = paths;
    let (mut all, mut known) = (Alignment::default(), HashMap::new());
    let mut last: Option<[Step; 2]> = None;
    let mut next = [good.next(), bad.next()];
    loop {
        if let [Some(a), Some(b)] = next
            && (a.code, a.depth) == (b.code, b.depth)
        {
            match all.together.last_mut() {
                Some(run) if [a.index, b.index] == run.from.map(|from| from + run.steps) => run.steps += 1,
                _ => all.together.push(Together { from: [a.index, b.index], steps: 1 }),
            }
            last = Some([a, b]);
            next = [good.next(), bad.next()];
            continue;
        }
        if next == [None, None] {
            return all;
        }
        let depth = last.map_or(u32::MAX, |[step, _]| step.depth);
        let sides = [Side::new(next[0], &good, depth), Side::new(next[1], &bad, depth)];
        let Some(again) = meet(sides, &address) else {
            all.last = Some(Parting { last, next, again: None });
            return all;
        };
        let parting = Parting { last, next, again: Some(again.each_ref().map(|(step, _)| *step)) };
        let index = *known.entry(last.map(|[step, _]| step.code)).or_insert_with(|| {
            all.parted.push(Parted { first: parting, times: 0 });
            all.parted.len() - 1
        });
        all.parted[index].times += 1;
        let [(a, from_a), (b, from_b)] = again;
        next = [Some(a), Some(b)];
        (good, bad) = (from_a, from_b);
    }
}

/// Code in a call, by how deep that is.
type Spot = (u32, u32);

/// One of two paths on the way to where they meet.
struct Side<W> {
    /// The first step, before those of the walk.
    first: Option<Step>,
    walk: W,
    /// Calls in which it is, the fewest so far.
    depth: u32,
    /// When it first came there, and how to go on from there.
    seen: HashMap<Spot, (u64, Step, W)>,
    /// Steps in the call and those around it.
    steps: u64,
    is_over: bool,
}

impl<W: Iterator<Item = Step> + Clone> Side<W> {
    fn new(first: Option<Step>, walk: &W, depth: u32) -> Self {
        Self { first, walk: walk.clone(), depth, seen: HashMap::new(), steps: 0, is_over: first.is_none() }
    }

    /// Goes on to the next step in the call or one around it, and says which spot that is, if it comes there for the first time.
    fn advance(&mut self) -> Option<Spot> {
        loop {
            let Some(step) = self.first.take().or_else(|| self.walk.next()) else {
                self.is_over = true;
                return None;
            };
            // Deeper calls do not count, and neither do later ones as deep as one that has returned.
            if step.depth > self.depth {
                continue;
            }
            self.depth = step.depth;
            let (spot, steps) = ((step.code, step.depth), self.steps);
            self.steps += 1;
            if self.seen.contains_key(&spot) {
                return None;
            }
            self.seen.insert(spot, (steps, step, self.walk.clone()));
            return Some(spot);
        }
    }
}

/// Where two paths meet, and how each goes on behind that; `None` if they do not.
fn meet<W: Iterator<Item = Step> + Clone>(
    mut sides: [Side<W>; 2],
    address: &impl Fn(u32) -> u64,
) -> Option<[(Step, W); 2]> {
    let mut best: Option<((u64, std::cmp::Reverse<u64>), Spot)> = None;
    loop {
        // Each at its turn, so that neither goes farther than it must.
        for side in [0, 1] {
            let Some(spot) = sides[side].advance() else { continue };
            let Some((other, ..)) = sides[1 - side].seen.get(&spot) else { continue };
            let rank = (sides[side].seen[&spot].0 + other, std::cmp::Reverse(address(spot.0)));
            if best.is_none_or(|(known, _)| rank < known) {
                best = Some((rank, spot));
            }
        }
        let least = sides.iter().filter(|side| !side.is_over).map(|side| side.steps).min();
        let is_done = best.is_some_and(|((steps, _), _)| least.is_none_or(|least| least > steps));
        // What is over has no spots that are new, and what has none at all meets nobody.
        let is_vain = best.is_none() && sides.iter().any(|side| side.is_over && side.seen.is_empty());
        if is_done || is_vain || least.is_none() {
            break;
        }
    }
    let (_, spot) = best?;
    let [mut good, mut bad] = sides;
    let ((_, a, from_a), (_, b, from_b)) = (good.seen.remove(&spot)?, bad.seen.remove(&spot)?);
    Some([(a, from_a), (b, from_b)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps from words: a letter is code, `(` a call and `)` its end.
    fn path(text: &str) -> Vec<Step> {
        let (mut depth, mut steps) = (0, Vec::new());
        for letter in text.chars() {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                ' ' => {}
                letter => {
                    let index = steps.len() as u64;
                    steps.push(Step { index, code: letter.into(), count: index * 10, depth, is_direct: true });
                }
            }
        }
        steps
    }

    fn aligned(good: &str, bad: &str) -> Alignment {
        let paths = [path(good), path(bad)];
        align(paths.each_ref().map(|path| path.iter().copied()), u64::from)
    }

    /// Of each parting: behind what, where each goes on, and where they meet again.
    fn partings(found: &Alignment) -> Vec<String> {
        let letter = |step: Option<Step>| step.and_then(|step| char::from_u32(step.code)).unwrap_or('-');
        let text = |p: &Parting| {
            let (last, again) = (p.last.map(|both| both[0]), p.again.map(|both| both[0]));
            format!("{}: {} {} -> {}", letter(last), letter(p.next[0]), letter(p.next[1]), letter(again))
        };
        let mut all: Vec<_> = found.parted.iter().map(|p| format!("{} ({})", text(&p.first), p.times)).collect();
        all.extend(found.last.iter().map(text));
        all
    }

    #[test]
    fn the_same_paths_go_together() {
        let found = aligned("a(bc)d", "a(bc)d");
        assert_eq!(found.together, [Together { from: [0, 0], steps: 4 }]);
        assert_eq!(partings(&found), Vec::<String>::new());
        assert_eq!(found.first(), None);
    }

    #[test]
    fn a_branch_and_its_end() {
        let found = aligned("a b d e", "a c d e");
        assert_eq!(partings(&found), ["a: b c -> d (1)"]);
        assert_eq!(found.together, [Together { from: [0, 0], steps: 1 }, Together { from: [2, 2], steps: 2 }]);
    }

    #[test]
    fn a_loop_that_goes_round_once_more() {
        let round = "l(xy)c";
        let (three, four) = (round.repeat(3), round.repeat(4));
        // The loop is in another one, so that its body comes again soon.
        let (good, bad) = (format!("h {three} z h {three} z"), format!("h {three} z h {four} z"));
        assert_eq!(partings(&aligned(&good, &bad)), ["c: z l -> z (1)"]);
        assert_eq!(partings(&aligned(&bad, &good)), ["c: l z -> z (1)"]);
    }

    #[test]
    fn what_is_deeper_does_not_count() {
        // Both call `g`, but in other calls.
        assert_eq!(partings(&aligned("a(b(g)h)e", "a(c(g)k)e")), ["a: b c -> e (1)"]);
    }

    #[test]
    fn returns_at_different_places_meet_in_the_caller() {
        assert_eq!(partings(&aligned("m(a b)n o", "m(a c)n p")), ["a: b c -> n (1)", "n: o p -> -"]);
    }

    #[test]
    fn one_that_ends_never_comes_back() {
        assert_eq!(partings(&aligned("m(a b c)n", "m(a x(y")), ["a: b x -> -"]);
        assert_eq!(partings(&aligned("m(a b c)n", "m(a b")), ["b: c - -> -"]);
        assert_eq!(partings(&aligned("", "a")), ["-: - a -> -"]);
    }

    #[test]
    fn what_happens_again_counts_once() {
        let found = aligned("h a b d h a b d h a b d", "h a c d h a b d h a c d");
        assert_eq!(partings(&found), ["a: b c -> d (2)"]);
        assert_eq!(found.times(), 2);
        assert_eq!(found.first().and_then(|first| first.last).map(|[step, _]| step.index), Some(1));
    }
}
