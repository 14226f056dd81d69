//! Each rule of the checker finds a log that breaks just this rule.

mod broken;
mod common;

use broken::{CODE, FIRST, MODULES, SECOND, TAIL, change, checked, cut, invariants, light, records, sound};
use bugnet_format::check::{Invariant, Report, Severity};
use bugnet_format::folder::{Ending, Recording};
use bugnet_format::frame::{FRAME_HEADER_SIZE, HEADER_SIZE, TailHeader, encode_frame};
use bugnet_format::process::Origin;
use bugnet_format::record::{EndReason, Record};
use bugnet_format::regs::{ARITHMETIC_FLAGS, FPU_UNKNOWN, RAX, RegisterFile};
use bugnet_format::types::{Addr, CodeSeq, Epoch, IntervalNo, Pid, ProcessId, Tid};
use common::{Log, Thread, checkpoint, encode, load};
use std::collections::BTreeSet;
use std::path::Path;

/// How a rule is broken: in the log before it is written, or in its files.
enum Break {
    Log(fn(&mut Log)),
    Files(fn(&Path)),
    /// In a light log.
    Light(fn(&Path)),
}

/// Recomputes the checksum of the frame at `at`.
fn fix_checksum(file: &mut [u8], at: usize) {
    let packed = u32::from_le_bytes(file[at + 16..at + 20].try_into().unwrap()) as usize;
    let crc = crc32fast::hash(&file[at + 8..at + FRAME_HEADER_SIZE + packed]);
    file[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
}

fn how_to_break(invariant: Invariant) -> Break {
    match invariant {
        Invariant::ProcessFile => {
            Break::Log(|log| log.process.origin = Origin::Exec { from: ProcessId { pid: Pid(99), program: 0 } })
        }
        Invariant::IntervalGap => Break::Log(|log| log.threads[0].intervals[1].header.interval = IntervalNo(2)),
        Invariant::FirstInterval => {
            Break::Log(|log| log.threads[0].intervals.iter_mut().for_each(|i| i.header.interval.0 += 1))
        }
        Invariant::ModuleLine => {
            Break::Files(|log| change(log, MODULES, |file| file.splice(..0, *b"{}\n").for_each(drop)))
        }
        Invariant::HeaderWhole => Break::Files(|log| cut(log, FIRST, 10)),
        Invariant::HeaderMagic => Break::Files(|log| change(log, FIRST, |file| file[0] = b'X')),
        Invariant::HeaderVersion => Break::Files(|log| change(log, FIRST, |file| file[8] = 9)),
        Invariant::HeaderChecksum => Break::Files(|log| change(log, FIRST, |file| file[76] ^= 1)),
        Invariant::HeaderReserved => Break::Files(|log| change(log, CODE, |file| file[12] = 1)),
        Invariant::HeaderIdentity => Break::Log(|log| log.threads[0].intervals[0].header.tid = Tid(1)),
        Invariant::FrameWhole => Break::Files(|log| change(log, FIRST, |file| file.truncate(file.len() - 1))),
        Invariant::FrameMagic => Break::Files(|log| change(log, FIRST, |file| file.extend(b"more"))),
        Invariant::FrameSize => Break::Files(|log| change(log, FIRST, |file| file[HEADER_SIZE + 12..][..4].fill(0xff))),
        Invariant::FrameChecksum => Break::Files(|log| change(log, FIRST, |file| *file.last_mut().unwrap() ^= 1)),
        Invariant::FrameSequence => Break::Files(|log| {
            change(log, FIRST, |file| {
                file[HEADER_SIZE + 8] = 1;
                fix_checksum(file, HEADER_SIZE);
            });
        }),
        Invariant::FrameContents => Break::Files(|log| {
            change(log, FIRST, |file| {
                file[HEADER_SIZE + 12] += 1;
                fix_checksum(file, HEADER_SIZE);
            });
        }),
        Invariant::TailPlace => Break::Log(|log| {
            log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 7 }, vec![load(0, 0, 0, &[1])]));
        }),
        Invariant::TailRecord => Break::Files(|log| {
            let mut file = common::tail_file(TailHeader { interval: IntervalNo(1), frame: 0 }, &[]);
            file[64] = 0x7f;
            std::fs::write(log.join(TAIL), file).unwrap();
        }),
        Invariant::RecordForm => Break::Files(|log| {
            change(log, SECOND, |file| {
                let mut bytes = encode(&common::sample().threads[0].intervals[1].frames[0]);
                bytes.push(0x7f);
                file.truncate(HEADER_SIZE);
                encode_frame(0, &bytes, common::LEVEL, file).unwrap();
            });
        }),
        Invariant::CheckpointFirst => Break::Log(|log| records(log, 1, 0).insert(1, checkpoint(2))),
        Invariant::EndPresent => Break::Log(|log| drop(records(log, 0, 1).pop())),
        Invariant::EndLast => Break::Log(|log| records(log, 1, 0).push(Record::Note { text: "late" })),
        Invariant::EndReason => Break::Log(|log| {
            let Some(Record::End { reason, .. }) = records(log, 0, 1).last_mut() else { panic!("no END") };
            *reason = EndReason::Exit { status: 0 };
        }),
        Invariant::LoadOrdinal => Break::Log(|log| {
            records(log, 1, 0).splice(1..1, [load(0, 1, 0, &[1]), load(0, 0, 0, &[1])]).for_each(drop);
        }),
        Invariant::OpaqueLast => Break::Log(|log| {
            let second = records(log, 0, 1);
            let at = second.iter().position(|r| matches!(r, Record::Syscall { .. })).unwrap();
            second.insert(at + 1, load(0, 0, 0, &[1]));
        }),
        Invariant::SyscallData => {
            Break::Log(|log| records(log, 1, 0).insert(1, Record::SyscallData { arg: 0, bytes: b"/etc" }))
        }
        Invariant::EndingPlace => {
            Break::Log(|log| records(log, 1, 0).insert(1, Record::Snapshot { addr: Addr(0x1000), bytes: &[1] }))
        }
        Invariant::AddressRange => Break::Log(|log| {
            let beyond = Record::Memory { delta: 0, addr: Addr(Addr::USER_END - 1), bytes: &[1, 2] };
            records(log, 1, 0).insert(1, beyond);
        }),
        Invariant::RegistersKnown => Break::Log(|log| {
            let Some(Record::End { regs, .. }) = records(log, 0, 1).last_mut() else { panic!("no END") };
            regs.rflags_known = ARITHMETIC_FLAGS;
        }),
        Invariant::CodePage => Break::Log(|log| log.code.push(Addr(0x40_1001))),
        Invariant::CodeAscending => Break::Log(|log| {
            records(log, 1, 0).insert(1, Record::Code { delta: 0, seq: CodeSeq(2) });
        }),
        Invariant::CodeKnown => Break::Log(|log| log.code.truncate(2)),
        Invariant::IntervalContinuity => Break::Log(|log| records(log, 1, 0)[0] = checkpoint(9)),
        Invariant::InstructionCount => Break::Log(|log| log.threads[0].intervals[1].header.instructions_before += 1),
        Invariant::CheckpointSequence => Break::Log(|log| log.threads[0].intervals[1].header.sequence = 0),
        Invariant::EpochAscending => Break::Log(|log| log.threads[0].intervals[1].header.epoch_before = Epoch(1)),
        Invariant::EpochOrder => Break::Log(|log| {
            let mut other = common::sample().threads.remove(1);
            for interval in &mut other.intervals {
                (interval.header.epoch, interval.header.epoch_before) = (Epoch(2), Epoch(2));
            }
            log.threads.push(other);
        }),
        Invariant::LightPart => Break::Light(light::part),
        Invariant::LightRecord => Break::Light(light::form),
        Invariant::LightOrder => Break::Light(light::order),
        Invariant::LightOrigin => Break::Light(light::origin),
        Invariant::LightMemory => Break::Light(light::memory),
        Invariant::LightFile => Break::Light(light::cut_file),
        Invariant::EndingAgrees => Break::Log(|log| log.meta.ending = Ending::Exited { status: 0 }),
    }
}

#[test]
fn a_sound_log_has_no_findings() {
    let folder = tempfile::tempdir().unwrap();
    sound().write(folder.path());
    let report = checked(folder.path());
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!((report.intervals, report.records), (2, 37));
}

#[test]
fn a_sound_light_log_has_no_findings() {
    let folder = tempfile::tempdir().unwrap();
    light::sound(folder.path());
    let report = light::checked(folder.path());
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!(report.captured, 16);
}

#[test]
fn an_interval_may_begin_behind_an_exec_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = sound();
    let Some(Record::End { reason, .. }) = records(&mut log, 0, 1).last_mut() else { panic!("no END") };
    *reason = EndReason::Exec;
    log.threads[0].intervals[1].header.instructions_before += 1;
    let Record::Checkpoint { regs, .. } = &mut records(&mut log, 1, 0)[0] else { panic!("no CHECKPOINT") };
    regs.rip += 2;
    regs.gpr[RAX] = 2u64.wrapping_neg();
    log.write(folder.path());
    let report = checked(folder.path());
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

#[test]
fn sigkill_may_come_behind_the_last_record() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = sound();
    log.meta.ending = Ending::Killed { signal: 9 };
    log.write(folder.path());
    let report = checked(folder.path());
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

#[test]
fn an_end_that_is_no_checkpoint_may_know_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = sound();
    let Some(Record::End { regs, .. }) = records(&mut log, 1, 0).last_mut() else { panic!("no END") };
    **regs = RegisterFile::unknown();
    log.write(folder.path());
    assert!(checked(folder.path()).findings.is_empty());
}

#[test]
fn each_rule_finds_what_breaks_it_and_no_other_does() {
    for &invariant in Invariant::ALL {
        let folder = tempfile::tempdir().unwrap();
        let mut log = sound();
        let report = match how_to_break(invariant) {
            Break::Log(edit) => {
                edit(&mut log);
                log.write(folder.path());
                checked(folder.path())
            }
            Break::Files(edit) => {
                log.write(folder.path());
                edit(folder.path());
                checked(folder.path())
            }
            Break::Light(edit) => {
                light::sound(folder.path());
                edit(folder.path());
                light::checked(folder.path())
            }
        };
        assert_eq!(
            invariants(&report, Severity::Error),
            BTreeSet::from([invariant]),
            "breaking {invariant}: {:#?}",
            report.findings
        );
        for finding in &report.findings {
            assert!(finding.file.starts_with(folder.path()), "{finding}");
        }
    }
}

/// Another way to break a rule.
type Edit = (Invariant, fn(&mut Log));

const MORE: &[Edit] = &[
    (Invariant::CodeAscending, |log| log.threads[0].intervals[1].header.code_seq = CodeSeq(1)),
    (Invariant::CodeKnown, |log| {
        log.threads[0].intervals[1].header.code_seq = CodeSeq(9);
        records(log, 1, 0).retain(|record| !matches!(record, Record::Code { .. }));
    }),
    (Invariant::CodePage, |log| log.code.push(Addr(Addr::USER_END))),
    (Invariant::AddressRange, |log| {
        let last = records(log, 1, 0).len() - 1;
        records(log, 1, 0).insert(last, Record::Snapshot { addr: Addr(u64::MAX - 1), bytes: &[1] });
    }),
    (Invariant::AddressRange, |log| {
        let last = records(log, 1, 0).len() - 1;
        records(log, 1, 0).insert(last, Record::Zeros { addr: Addr(0x1000), len: Addr::USER_END });
    }),
    (Invariant::EndingPlace, |log| {
        records(log, 1, 0).insert(1, Record::Omitted { addr: Addr(0x1000), len: 1 });
    }),
    (Invariant::SyscallData, |log| {
        let Record::SyscallData { arg, .. } = &mut records(log, 0, 1)[0] else { panic!("no SYSCALL_DATA") };
        *arg = 6;
    }),
    (Invariant::LoadOrdinal, |log| {
        let overlapping = [load(0, 1, 0, &[1, 2]), load(0, 1, 1, &[1])];
        records(log, 1, 0).splice(2..2, overlapping).for_each(drop);
    }),
    (Invariant::RegistersKnown, |log| {
        let Record::Checkpoint { regs, .. } = &mut records(log, 0, 0)[0] else { panic!("no CHECKPOINT") };
        regs.rflags_known |= FPU_UNKNOWN;
    }),
    (Invariant::RegistersKnown, |log| {
        let Some(Record::End { regs, .. }) = records(log, 0, 1).last_mut() else { panic!("no END") };
        **regs = RegisterFile::unknown();
    }),
    // An exec whose interval is followed by one that does not begin behind it.
    (Invariant::InstructionCount, |log| {
        let Some(Record::End { reason, .. }) = records(log, 0, 1).last_mut() else { panic!("no END") };
        *reason = EndReason::Exec;
    }),
    (Invariant::EndReason, |log| {
        let (intervals, last) = (&mut log.threads[0].intervals, common::end(0, EndReason::Full, 3));
        let mut third = intervals[1].clone();
        third.header.interval = IntervalNo(2);
        third.header.sequence = 5;
        (third.header.epoch, third.header.epoch_before) = (Epoch(2), Epoch(1));
        third.header.instructions_before += 107;
        third.header.code_seq = CodeSeq(3);
        third.frames = vec![vec![checkpoint(3), last]];
        intervals.push(third);
        // The last but one ends by the signal, the last because it is full.
        log.meta.ending = Ending::Unknown;
    }),
    (Invariant::EpochAscending, |log| {
        // Of intervals that fit together otherwise.
        log.threads[0].intervals[0].header.epoch = Epoch(2);
        log.threads[0].intervals[0].header.epoch_before = Epoch(2);
        log.threads[0].intervals[1].header.epoch_before = Epoch(2);
    }),
    (Invariant::EpochAscending, |log| log.threads[0].intervals[0].header.epoch = Epoch(1)),
    (Invariant::EndingAgrees, |log| log.meta.ending = Ending::Killed { signal: 6 }),
    (Invariant::TailPlace, |log| {
        log.threads[0].tail = Some((TailHeader { interval: IntervalNo(2), frame: 1 }, vec![]));
    }),
    // For the frame behind one that is nowhere.
    (Invariant::TailPlace, |log| {
        log.threads[0].tail = Some((TailHeader { interval: IntervalNo(0), frame: 1 }, vec![load(0, 0, 0, &[1])]));
        log.threads[0].tail2 = Some((TailHeader { interval: IntervalNo(1), frame: 2 }, vec![load(0, 0, 0, &[1])]));
    }),
    (Invariant::CheckpointFirst, |log| drop(records(log, 1, 0).remove(0))),
];

#[test]
fn nothing_follows_a_damaged_tail() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = sound();
    let records = log.threads[0].intervals[1].frames.pop().unwrap();
    log.threads[0].tail = Some((TailHeader { interval: IntervalNo(1), frame: 0 }, records[..4].to_vec()));
    log.threads[0].tail2 = Some((TailHeader { interval: IntervalNo(1), frame: 1 }, records[4..6].to_vec()));
    log.write(folder.path());
    change(folder.path(), TAIL, |file| file[64 + encode(&records[..4]).len()] = 0x7f);
    assert_eq!(invariants(&checked(folder.path()), Severity::Error), BTreeSet::from([Invariant::TailRecord]));
    let recording = Recording::open(folder.path()).unwrap();
    let interval = recording.threads().unwrap()[0].interval(IntervalNo(1)).unwrap();
    assert_eq!(interval.records().count(), 4);
}

#[test]
fn rules_are_broken_in_other_ways() {
    for (invariant, edit) in MORE {
        let folder = tempfile::tempdir().unwrap();
        let mut log = sound();
        edit(&mut log);
        log.write(folder.path());
        let report = checked(folder.path());
        let found = invariants(&report, Severity::Error);
        assert_eq!(found, BTreeSet::from([*invariant]), "{:#?}", report.findings);
    }
}

#[test]
fn names_are_kebab_case_and_unique() {
    let names: BTreeSet<_> = Invariant::ALL.iter().map(|i| i.name()).collect();
    assert_eq!(names.len(), Invariant::ALL.len());
    for invariant in Invariant::ALL {
        let variant: String = format!("{invariant:?}")
            .char_indices()
            .flat_map(|(i, c)| (i > 0 && c.is_uppercase()).then_some('-').into_iter().chain(c.to_lowercase()))
            .collect();
        assert_eq!(invariant.name(), variant);
    }
}

#[test]
fn findings_of_one_kind_are_not_listed_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = sound();
    let many = (0..1000).map(|_| load(0, 0, 0, &[1]));
    records(&mut log, 1, 0).splice(1..1, many).for_each(drop);
    log.write(folder.path());
    let report = checked(folder.path());
    assert_eq!(report.findings.len(), Report::MOST);
    assert_eq!(report.unlisted, 1000 - Report::MOST as u64);
}

#[test]
fn a_thread_that_ended_by_itself_must_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = sound();
    log.meta.ending = Ending::Exited { status: 0 };
    records(&mut log, 1, 0).pop();
    log.write(folder.path());
    assert_eq!(invariants(&checked(folder.path()), Severity::Error), BTreeSet::from([Invariant::EndPresent]));
}

#[test]
fn intervals_of_two_threads_have_different_checkpoint_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = common::sample();
    let other: &mut Thread = &mut log.threads[1];
    other.intervals[0].header.sequence = 0;
    log.write(folder.path());
    assert_eq!(invariants(&checked(folder.path()), Severity::Error), BTreeSet::from([Invariant::CheckpointSequence]));
}

#[test]
fn code_pages_may_be_missing_only_where_not_all_intervals_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    for keep in [0, 2] {
        let mut log = sound();
        log.meta.keep = keep;
        log.write(folder.path());
        change(folder.path(), CODE, |file| {
            file.truncate(bugnet_format::code::CODE_HEADER_SIZE);
            for (frame, seq) in [1, 3].into_iter().enumerate() {
                let (mut bytes, page) = (Vec::new(), common::page(seq as usize));
                bugnet_format::code::encode_page(CodeSeq(seq), Addr(0x40_1000), &page, &mut bytes);
                encode_frame(frame as u32, &bytes, common::LEVEL, file).unwrap();
            }
        });
        let expected: &[Invariant] = if keep == 0 { &[Invariant::CodePage] } else { &[] };
        assert_eq!(invariants(&checked(folder.path()), Severity::Error), expected.iter().copied().collect());
    }
}
