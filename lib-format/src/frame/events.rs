//! An interval without what was read: of the records, that is nearly all there are.

use super::Interval;
use crate::record::{Placed, Record};
use crate::types::Position;

/// Whether a record tells of calls, signals, special instructions, changes of registers, or the order of threads.
fn is_event(record: &Record<'_>) -> bool {
    matches!(
        record,
        Record::Checkpoint { .. }
            | Record::Registers { .. }
            | Record::Signal { .. }
            | Record::Syscall { .. }
            | Record::SyscallData { .. }
            | Record::Special { .. }
            | Record::Dependency { .. }
            | Record::End { .. }
    )
}

impl Interval {
    /// The same interval with those records alone that tell of calls, signals, special instructions, changes of registers, and the order of threads. Where it
    /// was cut off behind these, a `CODE` stands where its last record was.
    #[must_use]
    pub fn events(&self) -> Self {
        let (mut stream, mut at) = (Vec::new(), Position(0));
        // Where the last one begins, and the position before it.
        let mut last = (0, Position(0));
        let mut reader = self.records();
        while let Some(Ok(Placed { position, mut record, .. })) = reader.next() {
            if is_event(&record) {
                last = (stream.len(), at);
                record.follow(position.0 - at.0);
                record.encode(&mut stream);
                if record.has_position() {
                    at = position;
                }
            }
            reader.skip_data();
        }
        let end = reader.position();
        if end > at {
            Record::Code { delta: end.0 - at.0, seq: self.last_code }.encode(&mut stream);
        }
        let ending = if self.complete { last } else { (stream.len(), end) };
        Self { header: self.header, ending, end: ending.0, stream: stream.into(), broken: self.broken.clone(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{IntervalHeader, stored_frame};
    use crate::record::{EndReason, LoadValue, OutputStream, RegisterUpdates};
    use crate::types::{CodeSeq, Epoch, IntervalNo, Pid, Tid};
    use std::path::Path;

    #[test]
    fn events_are_where_they_were() {
        let regs = || Box::new(crate::regs::RegisterFile::default());
        let load = |delta| Record::Load { delta, ordinal: 0, offset: 0, value: LoadValue::new(&[1, 2, 3, 4]) };
        let call = |delta| Record::Syscall {
            delta,
            number: 1,
            result: 2,
            args: [3; 6],
            stream: OutputStream::None,
            order: 4,
            updates: RegisterUpdates::default(),
        };
        let first = Record::Checkpoint { tsc: 1, unix_nanos: 2, regs: regs() };
        let data = Record::SyscallData { arg: 1, bytes: b"name" };
        let whole = [first.clone(), load(3), load(4), data.clone(), call(2), load(0), load(5), call(1), load(6)];
        let end = Record::End { delta: 2, reason: EndReason::Full, regs: regs() };
        for ends in [true, false] {
            let mut stream = Vec::new();
            whole.iter().chain(ends.then_some(&end)).for_each(|record| record.encode(&mut stream));
            let header = IntervalHeader {
                pid: Pid(1),
                tid: Tid(1),
                interval: IntervalNo(0),
                sequence: 0,
                code_seq: CodeSeq(0),
                instructions_before: 0,
                epoch: Epoch(0),
                epoch_before: Epoch(0),
            };
            let mut file = header.encode().to_vec();
            stored_frame(0, &stream, &mut file);
            let interval = Interval::decode(&file, &[] as &[&[u8]], Path::new("")).expect("sound");
            let events = interval.events();
            let of = |interval: &Interval| -> Vec<(u64, bool, bool)> {
                let all = interval.records().map(|placed| placed.expect("sound"));
                all.map(|placed| {
                    let is =
                        |other: &Record<'_>| std::mem::discriminant(&placed.record) == std::mem::discriminant(other);
                    (placed.position.0, is(&call(0)), is(&data))
                })
                .collect()
            };
            let last = if ends { 23 } else { 21 };
            assert_eq!(
                of(&events),
                [(0, false, false), (0, false, true), (9, true, false), (15, true, false), (last, false, false)]
            );
            assert_eq!((events.end(), of(&interval).last()), (interval.end(), of(&events).last()));
        }
    }
}
