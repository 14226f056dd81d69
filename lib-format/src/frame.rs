//! Interval files: a header, then frames of compressed records (FORMAT.md, "Interval files").
//!
//! A frame is complete or it is not there: whatever kills the logger in the middle of one, the frames before it
//! stand. What had not made it into a frame lies in the thread's [tails](read_tail).

mod events;

use crate::buffer::Buffer;
use crate::error::{FormatError, Result};
use crate::record::{EndReason, Record, Records};
use crate::types::{CodeSeq, Epoch, IntervalNo, Pid, Position, Tid};
use crate::wire::Reader;
use std::path::Path;
use zstd::bulk::{Compressor, Decompressor};

/// First bytes of an interval file.
pub const INTERVAL_MAGIC: [u8; 8] = *b"BUGNETIV";
/// First bytes of a frame.
pub const FRAME_MAGIC: [u8; 4] = *b"BNFR";
/// First bytes of a tail.
pub const TAIL_MAGIC: [u8; 8] = *b"BUGNETTL";

/// Bytes of the header of an interval file.
pub const HEADER_SIZE: usize = 80;
/// Bytes of the header of a frame.
pub const FRAME_HEADER_SIZE: usize = 20;
/// Bytes of the header of a tail.
pub const TAIL_HEADER_SIZE: usize = 64;
/// Most bytes of records in one frame.
pub const MAX_FRAME: usize = 8 << 20;
/// Most bytes of a frame's compressed part: what zstd makes of [`MAX_FRAME`] bytes that do not compress, and some.
pub const MAX_PACKED_FRAME: usize = MAX_FRAME + (MAX_FRAME >> 7);
/// Most bytes of records in one interval; a reader refuses more.
pub const MAX_INTERVAL_STREAM: usize = 4 << 30;

/// zstd's level for the frames of intervals, the fastest of its ordinary ones. Two processes may write the same frame, and have
/// to make the same bytes of it.
pub const LEVEL: i32 = 1;

/// Header of an interval file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct IntervalHeader {
    /// The recorded process.
    pub pid: Pid,
    /// The recorded thread.
    pub tid: Tid,
    /// Number of the interval in its thread.
    pub interval: IntervalNo,
    /// How many checkpoints the process had created before this one, over all threads (the paper's time stamp).
    pub sequence: u64,
    /// The code picture at the interval's start.
    pub code_seq: CodeSeq,
    /// Instructions that the thread had executed before this interval, since recording began.
    pub instructions_before: u64,
    /// The epoch in which the interval begins.
    pub epoch: Epoch,
    /// The epoch of the thread's interval before; this one's in a first interval.
    pub epoch_before: Epoch,
}

impl IntervalHeader {
    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut out = Vec::with_capacity(HEADER_SIZE);
        out.extend_from_slice(&INTERVAL_MAGIC);
        out.extend_from_slice(&crate::FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&self.pid.0.to_le_bytes());
        out.extend_from_slice(&self.tid.0.to_le_bytes());
        out.extend_from_slice(&self.interval.0.to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.code_seq.0.to_le_bytes());
        out.extend_from_slice(&self.instructions_before.to_le_bytes());
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        out.extend_from_slice(&self.epoch_before.0.to_le_bytes());
        out.resize(HEADER_SIZE - 4, 0);
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        let mut header = [0; HEADER_SIZE];
        header.copy_from_slice(&out);
        header
    }

    /// Reads and checks the header at the start of `bytes`; `path` is for messages.
    ///
    /// # Errors
    /// Not an interval file, another version, or damaged.
    pub fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let Some(header) = bytes.get(..HEADER_SIZE) else {
            return Err(FormatError::damaged(path, bytes.len() as u64, "ends within its header"));
        };
        check_magic(header, &INTERVAL_MAGIC, path, "interval file")?;
        let damaged = |at: usize, why: &str| FormatError::damaged(path, at as u64, why);
        let crc = crc32fast::hash(&header[..HEADER_SIZE - 4]);
        if header[HEADER_SIZE - 4..] != crc.to_le_bytes() {
            return Err(damaged(0, "the header's checksum does not fit"));
        }
        let mut r = Reader::new(header, 16);
        let read = |e: crate::wire::WireError| damaged(16, e.0);
        Ok(Self {
            pid: Pid(r.u32().map_err(read)?),
            tid: Tid(r.u32().map_err(read)?),
            interval: IntervalNo(r.u64().map_err(read)?),
            sequence: r.u64().map_err(read)?,
            code_seq: CodeSeq(r.u64().map_err(read)?),
            instructions_before: r.u64().map_err(read)?,
            epoch: Epoch(r.u64().map_err(read)?),
            epoch_before: Epoch(r.u64().map_err(read)?),
        })
    }
}

/// Checks magic and version, which stand at the start of every binary file of a log.
pub(crate) fn check_magic(header: &[u8], magic: &[u8; 8], path: &Path, what: &'static str) -> Result<()> {
    if header.get(..8) != Some(magic.as_slice()) {
        let found = format!("it begins with {:02x?}", &header[..header.len().min(8)]);
        return Err(FormatError::NotALog { path: path.to_owned(), what, found });
    }
    let version = header.get(8..12).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    if version != crate::FORMAT_VERSION {
        return Err(FormatError::Version { path: path.to_owned(), found: version, expected: crate::FORMAT_VERSION });
    }
    Ok(())
}

/// Makes frames. It keeps what compression needs, which takes longer to make than a small frame.
pub struct Packer(Compressor<'static>);

impl Packer {
    /// Compresses with zstd at `level`.
    ///
    /// # Errors
    /// The compressor's, which are those of memory.
    pub fn new(level: i32) -> std::io::Result<Self> {
        Compressor::new(level).map(Self)
    }

    /// Appends a frame that holds `records` (encoded).
    ///
    /// Frame layout: magic, CRC-32 of all that follows, sequence number within the file, bytes before and after
    /// compression (`u32` each), the compressed bytes.
    ///
    /// # Errors
    /// The compressor's, which are those of memory.
    pub fn frame(&mut self, sequence: u32, records: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        let packed = self.0.compress(records)?;
        put_frame(sequence, records.len(), &packed, out);
        Ok(())
    }
}

/// Appends a frame with `records` as they are, in the form in which zstd has what it cannot make smaller: that takes a
/// twentieth of the time.
pub fn stored_frame(sequence: u32, records: &[u8], out: &mut Vec<u8>) {
    /// A zstd frame's magic number, and its descriptor: one segment, whose size has four bytes.
    const START: [u8; 5] = [0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    const LARGEST_BLOCK: usize = 128 << 10;
    let mut packed = Vec::with_capacity(records.len() + 16);
    packed.extend_from_slice(&START);
    packed.extend_from_slice(&(records.len() as u32).to_le_bytes());
    let blocks = records.len().div_ceil(LARGEST_BLOCK).max(1);
    for number in 0..blocks {
        let from = number * LARGEST_BLOCK;
        let block = &records[from..records.len().min(from + LARGEST_BLOCK)];
        // A raw block: whether it is the last one, its kind, its size.
        let header = u32::from(number + 1 == blocks) | (block.len() as u32) << 3;
        packed.extend_from_slice(&header.to_le_bytes()[..3]);
        packed.extend_from_slice(block);
    }
    put_frame(sequence, records.len(), &packed, out);
}

fn put_frame(sequence: u32, raw: usize, packed: &[u8], out: &mut Vec<u8>) {
    debug_assert!(raw <= MAX_FRAME, "a frame holds at most MAX_FRAME bytes");
    let start = out.len();
    out.extend_from_slice(&FRAME_MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&(raw as u32).to_le_bytes());
    out.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    out.extend_from_slice(packed);
    let crc = crc32fast::hash(&out[start + 8..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

/// One frame by a [`Packer`] of its own.
///
/// # Errors
/// As [`Packer::frame`].
pub fn encode_frame(sequence: u32, records: &[u8], level: i32, out: &mut Vec<u8>) -> std::io::Result<()> {
    Packer::new(level)?.frame(sequence, records, out)
}

/// What can be wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// The file ends within it: the logger was killed while it wrote, or the file was truncated later.
    #[error("ends within a frame")]
    CutOff,
    /// Other bytes where a frame must begin.
    #[error("no frame begins here")]
    NotAFrame,
    /// Longer than [`MAX_FRAME`], or the stream than [`MAX_INTERVAL_STREAM`].
    #[error("frame larger than the format allows")]
    TooLarge,
    /// The checksum does not fit.
    #[error("a frame's checksum does not fit")]
    Checksum,
    /// Not the number that comes next.
    #[error("a frame is missing or out of order")]
    Sequence,
    /// The contents do not decompress to the length that the header says.
    #[error("a frame does not decompress to its length")]
    Contents,
}

/// What [`read_frames`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// The records of all complete frames, joined.
    pub stream: Buffer,
    /// Number of complete frames.
    pub count: u32,
    /// Where the first incomplete or damaged frame begins, and what is wrong with it; a file that was cut off in
    /// the middle of a frame (the logger was killed) has one, a finished file has none.
    pub broken: Option<(u64, String)>,
    /// The same fault as a type.
    pub fault: Option<FrameFault>,
}

/// Reads the frames of `file` from `start` on, up to the first that is not whole.
#[must_use]
pub fn read_frames(file: &[u8], start: usize) -> Frames {
    read_some_frames(file, start, u32::MAX)
}

fn read_some_frames(file: &[u8], start: usize, most: u32) -> Frames {
    let mut frames = Frames { stream: Buffer::for_about(file.len() as u64), ..Frames::default() };
    let mut unpacker = Decompressor::new().ok();
    let mut at = start;
    while at < file.len() && frames.count < most {
        match read_frame(&file[at..], frames.count, &mut frames.stream, unpacker.as_mut()) {
            Ok(len) => {
                at += len;
                frames.count += 1;
            }
            Err(fault) => {
                frames.broken = Some((at as u64, fault.to_string()));
                frames.fault = Some(fault);
                break;
            }
        }
    }
    frames
}

/// Reads the frame at the start of `bytes`, appends its records to `stream`, and returns its length in the file.
fn read_frame(
    bytes: &[u8],
    sequence: u32,
    stream: &mut Vec<u8>,
    unpacker: Option<&mut Decompressor<'_>>,
) -> std::result::Result<usize, FrameFault> {
    if !FRAME_MAGIC.starts_with(&bytes[..bytes.len().min(FRAME_MAGIC.len())]) {
        return Err(FrameFault::NotAFrame);
    }
    let header = bytes.get(..FRAME_HEADER_SIZE).ok_or(FrameFault::CutOff)?;
    let field = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (crc, number, raw, packed) = (field(4), field(8), field(12) as usize, field(16) as usize);
    if raw > MAX_FRAME || packed > MAX_PACKED_FRAME || stream.len() + raw > MAX_INTERVAL_STREAM {
        return Err(FrameFault::TooLarge);
    }
    let end = FRAME_HEADER_SIZE + packed;
    let frame = bytes.get(..end).ok_or(FrameFault::CutOff)?;
    if crc32fast::hash(&frame[8..]) != crc {
        return Err(FrameFault::Checksum);
    }
    if number != sequence {
        return Err(FrameFault::Sequence);
    }
    let start = stream.len();
    stream.resize(start + raw, 0);
    let unpacked =
        unpacker.map(|unpacker| unpacker.decompress_to_buffer(&frame[FRAME_HEADER_SIZE..], &mut stream[start..]));
    if !matches!(unpacked, Some(Ok(len)) if len == raw) {
        stream.truncate(start);
        return Err(FrameFault::Contents);
    }
    Ok(end)
}

/// Header of a thread's tail: the records that wait for their frame, in a file that the logger maps as its buffer,
/// so that they outlive the process. After the header come the records as they are, and then a zero byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailHeader {
    /// The interval to which the records belong.
    pub interval: IntervalNo,
    /// Number that their frame would get; if the interval's file has that frame already, the tail is old.
    pub frame: u32,
}

impl TailHeader {
    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; TAIL_HEADER_SIZE] {
        let mut out = [0; TAIL_HEADER_SIZE];
        out[..8].copy_from_slice(&TAIL_MAGIC);
        out[8..12].copy_from_slice(&crate::FORMAT_VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.frame.to_le_bytes());
        out[16..24].copy_from_slice(&self.interval.0.to_le_bytes());
        out
    }
}

/// Reads a tail: its header and the records that are complete in it.
///
/// The logger sets the byte behind a record to zero and writes the record's first byte last, so a record that was cut
/// off reads as the end.
///
/// # Errors
/// Not a tail, or another version.
pub fn read_tail<'a>(file: &'a [u8], path: &Path) -> Result<(TailHeader, &'a [u8])> {
    check_magic(file, &TAIL_MAGIC, path, "tail")?;
    let Some((header, records)) = file.split_at_checked(TAIL_HEADER_SIZE) else {
        return Err(FormatError::damaged(path, file.len() as u64, "ends within its header"));
    };
    let mut interval = [0; 8];
    interval.copy_from_slice(&header[16..24]);
    let frame = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
    let mut reader = Records::new(records);
    let mut complete = 0;
    while let Some(Ok(_)) = reader.next() {
        complete = reader.offset();
    }
    Ok((TailHeader { interval: IntervalNo(u64::from_le_bytes(interval)), frame }, &records[..complete]))
}

/// A tail that can be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail<'a> {
    pub(crate) header: TailHeader,
    pub(crate) records: &'a [u8],
    /// Whether no damage ends the records.
    whole: bool,
}

impl<'a> Tail<'a> {
    pub(crate) fn read(file: &'a [u8], path: &Path) -> Result<Self> {
        let (header, records) = read_tail(file, path)?;
        let whole = file.get(TAIL_HEADER_SIZE + records.len()).is_none_or(|byte| *byte == 0);
        Ok(Self { header, records, whole })
    }
}

/// Appends the records of the tails that follow the `frames` whole frames of an interval's file. Returns how many frames the
/// file would have with those.
pub(crate) fn add_tails(tails: &[Tail<'_>], interval: IntervalNo, frames: u32, stream: &mut Vec<u8>) -> u32 {
    let mut next = frames;
    loop {
        let place = TailHeader { interval, frame: next };
        // One without records is about to be used.
        let Some(tail) = tails.iter().find(|tail| tail.header == place && !tail.records.is_empty()) else {
            return next;
        };
        stream.extend_from_slice(tail.records);
        next += 1;
        if !tail.whole {
            return next;
        }
    }
}

/// A whole interval, as read from its file and the thread's tails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The file's header.
    pub header: IntervalHeader,
    /// All records, encoded; see [`Records`].
    pub stream: Buffer,
    /// Bytes of the file.
    pub file_size: u64,
    /// Whether the last record is an `END`. If not, the recording was cut off in this interval.
    pub complete: bool,
    /// What is wrong behind the last usable record, if anything is, and the rule: the byte offset is one in the file
    /// where a frame is at fault, and one in the stream where a record is.
    pub broken: Option<(u64, String)>,
    /// Whether `broken` is damage, not just a file that ends in the middle of a frame as a killed logger leaves it.
    pub damaged: bool,
    last_code: CodeSeq,
    /// Where [`Self::ending`] begins, and the position of the record before.
    ending: (usize, Position),
    /// Where the `END` begins; the stream's length if there is none.
    end: usize,
}

impl Interval {
    /// Builds an interval from the bytes of its file and, where the file has no end, of its thread's tails.
    ///
    /// Every record is checked once, so that [`Self::records`] cannot fail later. A stream that is damaged in the
    /// middle is kept up to the damage, and `broken` says where that was.
    ///
    /// # Errors
    /// The header is not one of this version, or not even the first record is whole.
    pub fn decode(file: &[u8], tails: &[impl AsRef<[u8]>], path: &Path) -> Result<Self> {
        let header = IntervalHeader::decode(file, path)?;
        let frames = read_frames(file, HEADER_SIZE);
        let mut stream = frames.stream;
        add_tails(&usable_tails(tails), header.interval, frames.count, &mut stream);
        let Usable { bytes, complete, fault, last_code, ending, end } = usable_records(&stream);
        if bytes == 0 {
            let (at, why) = match (fault, frames.broken) {
                (Some((_, why)), _) => (HEADER_SIZE as u64, why),
                (None, Some(broken)) => broken,
                (None, None) => (HEADER_SIZE as u64, "no record in it".to_owned()),
            };
            return Err(FormatError::damaged(path, at, why));
        }
        stream.truncate(bytes);
        let end = end.unwrap_or(bytes);
        let last_code = last_code.max(header.code_seq);
        let damaged = fault.is_some() || frames.fault.is_some_and(|fault| fault != FrameFault::CutOff);
        let broken = fault.or(frames.broken);
        Ok(Self { header, stream, file_size: file.len() as u64, complete, broken, damaged, last_code, ending, end })
    }

    /// Whether the logger had come to the interval's first record when it was killed. If not, the thread's log ends
    /// with the interval before. Damage counts as begun, for [`Self::decode`] to say what it is.
    #[must_use]
    pub fn has_begun(file: &[u8], tails: &[impl AsRef<[u8]>], path: &Path) -> bool {
        if file.len() < HEADER_SIZE && INTERVAL_MAGIC.starts_with(&file[..file.len().min(INTERVAL_MAGIC.len())]) {
            return false;
        }
        let Ok(header) = IntervalHeader::decode(file, path) else { return true };
        let first = read_some_frames(file, HEADER_SIZE, 1);
        let damaged = first.fault.is_some_and(|fault| fault != FrameFault::CutOff);
        damaged || first.count > 0 || add_tails(&usable_tails(tails), header.interval, 0, &mut Vec::new()) > 0
    }

    /// The records, in order.
    pub fn records(&self) -> Records<'_> {
        Records::new(&self.stream)
    }

    /// The newest code picture that the interval uses.
    #[must_use]
    pub fn last_code_seq(&self) -> CodeSeq {
        self.last_code
    }

    /// Where it ends and why; nothing if the recording was cut off in it.
    #[must_use]
    pub fn end(&self) -> Option<(Position, EndReason)> {
        self.ending().flatten().find_map(|placed| match placed.record {
            Record::End { reason, .. } => Some((placed.position, reason)),
            _ => None,
        })
    }

    /// The records about the interval's end ([`Record::is_of_ending`]), and the `END`, as far as there are any.
    pub fn ending(&self) -> Records<'_> {
        let (offset, position) = self.ending;
        Records::resume(&self.stream, offset, position)
    }

    /// What replay needs of the stream: all but the records about the interval's end, which can be much. Two pieces, to be joined.
    #[must_use]
    pub fn replayed(&self) -> [&[u8]; 2] {
        [&self.stream[..self.ending.0], &self.stream[self.end..]]
    }
}

fn usable_tails(tails: &[impl AsRef<[u8]>]) -> Vec<Tail<'_>> {
    tails.iter().filter_map(|tail| Tail::read(tail.as_ref(), Path::new("")).ok()).collect()
}

/// What one pass over a stream finds.
#[derive(Default)]
struct Usable {
    /// How many bytes are records that can be used.
    bytes: usize,
    /// Whether the last of them is an `END`.
    complete: bool,
    /// What is wrong behind them.
    fault: Option<(u64, String)>,
    /// Newest code picture that a record names.
    last_code: CodeSeq,
    /// See [`Interval::ending`].
    ending: (usize, Position),
    /// Where the `END` begins.
    end: Option<usize>,
}

fn usable_records(stream: &[u8]) -> Usable {
    let mut reader = Records::new(stream);
    let mut found = Usable::default();
    while let Some(next) = reader.next() {
        let placed = match next {
            Ok(placed) => placed,
            Err(e) => return Usable { fault: Some((e.offset as u64, e.reason.to_owned())), ..found },
        };
        let usable = found.bytes;
        if (usable == 0) != matches!(placed.record, Record::Checkpoint { .. }) {
            let fault = (usable as u64, "a CHECKPOINT must come first and only first".to_owned());
            return Usable { fault: Some(fault), ..found };
        }
        found.bytes = reader.offset();
        match placed.record {
            record if record.is_of_ending() => continue,
            Record::End { .. } => {
                found.complete = true;
                found.end = Some(usable);
                found.fault =
                    (found.bytes < stream.len()).then(|| (found.bytes as u64, "records follow the END".to_owned()));
                return found;
            }
            Record::Code { seq, .. } => found.last_code = found.last_code.max(seq),
            _ => {}
        }
        reader.skip_data();
        found.bytes = reader.offset();
        found.ending = (found.bytes, reader.position());
    }
    found.fault =
        (found.bytes < stream.len()).then(|| (found.bytes as u64, "a zero byte among the records".to_owned()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_frames_are_read_as_others() {
        let sizes = [0, 1, 4116, (128 << 10) - 1, 128 << 10, (128 << 10) + 1, 1 << 20];
        let (mut file, mut stream) = (Vec::new(), Vec::new());
        for (sequence, size) in sizes.into_iter().enumerate() {
            let records: Vec<u8> = (0..size).map(|n: usize| ((n * n) >> 7) as u8).collect();
            let start = file.len();
            stored_frame(sequence as u32, &records, &mut file);
            assert_eq!(zstd::decode_all(&file[start + FRAME_HEADER_SIZE..]).unwrap(), records);
            stream.extend_from_slice(&records);
        }
        let frames = read_frames(&file, 0);
        assert_eq!((frames.count as usize, frames.fault), (sizes.len(), None));
        assert!(*frames.stream == stream);
    }
}
