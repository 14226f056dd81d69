use super::*;
use crate::testing::{LogBuilder, fake_tools, id, say};
use bugnet_format::control::Response;
use bugnet_format::folder::Ending;
use bugnet_format::record::{LoadValue, Record};
use bugnet_format::regs::RegisterFile;

fn regs(rip: u64) -> RegisterFile {
    RegisterFile { rip, ..RegisterFile::default() }
}

fn end(delta: u64, reason: EndReason) -> Record<'static> {
    Record::End { delta, reason, regs: Box::new(regs(0x2000)) }
}

/// Two intervals, of 5 and 7 instructions.
fn log() -> LogBuilder {
    let load = Record::Load { delta: 3, ordinal: 0, offset: 0, value: LoadValue::new(&[1, 2]) };
    LogBuilder::new()
        .interval(&regs(0x1000), &[end(5, EndReason::Full)])
        .interval(&regs(0x2000), &[load, end(4, EndReason::Exit { status: 0 })])
}

/// `at` counts from the thread's start; the second interval begins behind 1000 instructions.
fn stopped(stop: Stop, at: u64, counts: Counts) -> String {
    say(&Response::Stopped {
        stop,
        thread: 0,
        at,
        time: at,
        hit: None,
        regs: Box::new(regs(0x1004)),
        counts,
        written: None,
    })
}

fn jobs() -> NonZeroUsize {
    NonZeroUsize::new(2).unwrap()
}

/// Verifies with a replay process that answers an interval by the shell command for it, by the length of its package.
fn run(builder: &LogBuilder, selection: &Selection, first: &str, second: &str) -> (Report, Vec<Progress>) {
    let log = builder.open();
    let code = log.code(id(0).thread.pid).unwrap();
    let first_length = bugnet_format::package::encode(id(0).thread.tid, &log.interval(id(0)).unwrap(), &code).len();
    let script = format!(
        "{}\nhead -c 8 <&4 >/dev/null\nif [ $(wc -c <&3) = {first_length} ]; then {first}; else {second}; fi\nexec sleep 9",
        say(&Response::Ready)
    );
    let folder = tempfile::tempdir().unwrap();
    let tools = fake_tools(folder.path(), &script);
    let mut seen = Vec::new();
    let report = verify(&tools, &log, selection, &Verified::default(), jobs(), |progress| seen.push(progress)).unwrap();
    (report, seen)
}

#[test]
fn exact_intervals_add_up() {
    let counts = |instructions| Counts { instructions, loads: 1, checks: 2 };
    let (first, second) = (stopped(Stop::End, 5, counts(5)), stopped(Stop::End, 1007, counts(7)));
    let (report, seen) = run(&log(), &Selection::default(), &first, &second);
    assert!(report.is_exact(), "{report}");
    assert_eq!(report.counts, Counts { instructions: 12, loads: 2, checks: 4 });
    assert_eq!(report.to_string(), "2 of 2 intervals exact, 12 instructions");
    let seen: Vec<_> = seen.iter().map(|p| (p.intervals, p.of_intervals, p.instructions)).collect();
    assert_eq!(seen, [(0, 2, 0), (1, 2, 5), (2, 2, 12)]);
}

#[test]
fn a_divergence_is_reported_with_all_that_helps() {
    let expected = Some(Box::new(RegisterFile { mxcsr: 0x1fa0, ..regs(0x1004) }));
    let stop = Stop::Divergence { what: "the registers differ".into(), expected };
    let (first, second) = (stopped(Stop::End, 5, Counts::default()), stopped(stop, 1004, Counts::default()));
    let builder = log();
    let (report, _) = run(&builder, &Selection::default(), &first, &second);
    assert!(!report.is_exact());
    assert_eq!(report.failures().map(|f| f.id).collect::<Vec<_>>(), [id(1)]);
    let path = builder.folder.path().display();
    assert_eq!(
        report.to_string(),
        format!(
            "divergence in thread 41 interval 1 at instruction 4, address 0x1004\n\
            \x20 the registers differ\n\
            \x20 mxcsr: recorded 0x1fa0, replayed 0x1f80\n\
            \x20 last records:\n\
            \x20              0  checkpoint at 0x2000, time stamp 1\n\
            \x20              3  load 0: 0102\n\
            \x20 again: bugnet replay {path} --thread 41 --intervals 1..2\n\
            1 of 2 intervals exact, 0 instructions"
        )
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["intervals"][1]["outcome"], "divergence");
    assert_eq!(json["intervals"][1]["differences"][0]["register"], "mxcsr");
}

#[test]
fn a_lost_process_or_a_false_end_fails_only_its_interval() {
    let false_end = stopped(Stop::End, 1006, Counts::default());
    let (report, _) = run(&log(), &Selection::default(), "kill -KILL $$", &false_end);
    assert!(!report.is_exact());
    let errors: Vec<String> = report
        .intervals
        .iter()
        .map(|i| match &i.outcome {
            Outcome::Failed { error } => error.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(errors[0].contains("killed by SIGKILL"), "{errors:?}");
    assert!(errors[1].contains("claims an end at 6"), "{errors:?}");
}

#[test]
fn a_cut_off_log_is_exact_only_where_it_may_be_cut_off() {
    let cut = LogBuilder::new().interval(&regs(0x1000), &[end(5, EndReason::Full)]).interval(&regs(0x2000), &[]);
    let (first, second) = (stopped(Stop::End, 5, Counts::default()), stopped(Stop::CutOff, 1000, Counts::default()));
    let outcome = |builder: &LogBuilder, first: &str| {
        let (mut report, _) = run(builder, &Selection::default(), first, &second);
        (report.is_exact(), report.to_string(), report.intervals.remove(1).outcome)
    };
    let (exact, text, _) = outcome(&cut, &first);
    assert!(exact && text.contains("cut off at instruction 0: the program was still running, or killed"), "{text}");
    assert!(text.ends_with("2 of 2 intervals exact (1 cut off), 0 instructions"), "{text}");

    // The program ended by itself: then its log has an end.
    let mut exited = LogBuilder::new().interval(&regs(0x1000), &[end(5, EndReason::Full)]).interval(&regs(0x2000), &[]);
    exited.meta.ending = Ending::Exited { status: 0 };
    let (exact, text, outcome_1) = outcome(&exited, &first);
    assert!(!exact && matches!(outcome_1, Outcome::Damaged { .. }), "{text}");

    // Only the last interval of a thread can be cut off.
    let gap = LogBuilder::new().interval(&regs(0x1000), &[]).interval(&regs(0x2000), &[end(9, EndReason::Full)]);
    let (exact, text, _) = outcome(&gap, &stopped(Stop::CutOff, 0, Counts::default()));
    assert!(!exact && text.contains("interval 0: damaged after instruction 0"), "{text}");
}

#[test]
fn selections_choose() {
    let only = Selection { intervals: Some(1..9), ..Selection::default() };
    let (report, seen) = run(&log(), &only, "exit 1", &stopped(Stop::End, 1007, Counts::default()));
    assert!(report.is_exact(), "{report}");
    assert_eq!((report.intervals[0].id, seen.len()), (id(1), 2));
    let builder = log();
    let none = Selection { intervals: Some(2..9), ..Selection::default() };
    let error = none.intervals_of(&builder.open()).unwrap_err().to_string();
    assert!(error.ends_with("holds thread 41 with intervals 0 to 1"), "{error}");
}
