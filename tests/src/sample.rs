//! Which tests of a table `make test` makes, and which cases a test of several tries. `make soak` makes and tries all.
//!
//! Every kind of behaviour is tried each time: what differs in kind is in no table, or is always made. Where a table has many programs for the same
//! kind, or one program with many settings, some stand for the others. Which these are follows from their order in the table alone, so that
//! programs and settings that are added take their turns, too.

use libtest_mimic::Trial;

/// Of so many that follow each other, it is one's turn: of the first ones the first one's, of the next ones the second one's, and so on around.
/// Where these are the settings of one program, each program is tried with one, and each setting with as many programs.
fn is_turn(number: usize, many: usize) -> bool {
    let (group, place) = (number / many, number % many);
    group % many == place
}

/// Whether all is tried: nextest says which of its profiles it runs.
fn is_soak() -> bool {
    std::env::var_os("NEXTEST_PROFILE").is_some_and(|profile| profile == "soak")
}

/// One of so many tests of a table that follow each other; the others are ignored. Tests that are ignored anyway do not count.
#[must_use]
pub fn one_of(many: usize, tests: Vec<Trial>) -> Vec<Trial> {
    let mut numbers = 0..;
    let mut is_made =
        |test: &Trial| !test.has_ignored_flag() && numbers.next().is_some_and(|number| is_turn(number, many));
    tests
        .into_iter()
        .map(|test| {
            let is_ignored = !is_made(&test);
            test.with_ignored_flag(is_ignored)
        })
        .collect()
}

/// One of so many cases that follow each other, of those that a test tries.
pub fn some_of<T>(many: usize, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let is_tried = move |number: usize| is_soak() || is_turn(number, many);
    cases.into_iter().enumerate().filter_map(move |(number, case)| is_tried(number).then_some(case))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(many: usize, ignored: &[usize]) -> Vec<usize> {
        let test =
            |number: usize| Trial::test(number.to_string(), || Ok(())).with_ignored_flag(ignored.contains(&number));
        let tests = one_of(many, (0..9).map(test).collect());
        let made = tests.iter().filter(|test| !test.has_ignored_flag());
        made.map(|test| test.name().parse().unwrap()).collect()
    }

    #[test]
    fn turns_go_around() {
        assert_eq!(made(1, &[]), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(made(2, &[]), [0, 3, 4, 7, 8]);
        assert_eq!(made(3, &[]), [0, 4, 8]);
        assert_eq!(made(2, &[0, 4]), [1, 5, 6]);
    }
}
