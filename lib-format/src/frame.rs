//! Interval files: a header, then frames of compressed records (FORMAT.md, "Interval files").
//!
//! A frame is complete or it is not there: whatever kills the logger in the middle of one, the frames before it
//! stand. What had not made it into a frame lies in the thread's [tail](read_tail).

use crate::error::{FormatError, Result};
use crate::record::{Record, Records};
use crate::types::{CodeSeq, IntervalNo, Pid, Tid};
use crate::wire::Reader;
use std::path::Path;

/// First bytes of an interval file.
pub const INTERVAL_MAGIC: [u8; 8] = *b"BUGNETIV";
/// First bytes of a frame.
pub const FRAME_MAGIC: [u8; 4] = *b"BNFR";
/// First bytes of a tail.
pub const TAIL_MAGIC: [u8; 8] = *b"BUGNETTL";

/// Bytes of the header of an interval file.
pub const HEADER_SIZE: usize = 64;
/// Bytes of the header of a frame.
pub const FRAME_HEADER_SIZE: usize = 20;
/// Bytes of the header of a tail.
pub const TAIL_HEADER_SIZE: usize = 64;
/// Most bytes of records in one frame.
pub const MAX_FRAME: usize = 8 << 20;
/// Most bytes of records in one interval; a reader refuses more.
pub const MAX_INTERVAL_STREAM: usize = 4 << 30;

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

/// Appends a frame that holds `records` (encoded), compressed with zstd at `level`.
///
/// Frame layout: magic, CRC-32 of all that follows, sequence number within the file, bytes before and after
/// compression (`u32` each), the compressed bytes.
///
/// # Errors
/// The compressor's, which are those of memory.
pub fn encode_frame(sequence: u32, records: &[u8], level: i32, out: &mut Vec<u8>) -> std::io::Result<()> {
    debug_assert!(records.len() <= MAX_FRAME);
    let packed = zstd::bulk::compress(records, level)?;
    let start = out.len();
    out.extend_from_slice(&FRAME_MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&(records.len() as u32).to_le_bytes());
    out.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    out.extend_from_slice(&packed);
    let crc = crc32fast::hash(&out[start + 8..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// What [`read_frames`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// The records of all complete frames, joined.
    pub stream: Vec<u8>,
    /// Number of complete frames.
    pub count: u32,
    /// Where the first incomplete or damaged frame begins, and what is wrong with it; a file that was cut off in
    /// the middle of a frame (the logger was killed) has one, a finished file has none.
    pub broken: Option<(u64, String)>,
}

/// Reads the frames of `file` from `start` on, up to the first that is not whole.
#[must_use]
pub fn read_frames(file: &[u8], start: usize) -> Frames {
    let mut frames = Frames::default();
    let mut at = start;
    while at < file.len() {
        match read_frame(&file[at..], frames.count, &mut frames.stream) {
            Ok(len) => {
                at += len;
                frames.count += 1;
            }
            Err(why) => {
                frames.broken = Some((at as u64, why.to_owned()));
                break;
            }
        }
    }
    frames
}

fn read_frame(bytes: &[u8], sequence: u32, stream: &mut Vec<u8>) -> std::result::Result<usize, &'static str> {
    let header = bytes.get(..FRAME_HEADER_SIZE).ok_or("ends within a frame's header")?;
    if header[..4] != FRAME_MAGIC {
        return Err("no frame begins here");
    }
    let field = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (crc, number, raw, packed) = (field(4), field(8), field(12) as usize, field(16) as usize);
    if raw > MAX_FRAME || stream.len() + raw > MAX_INTERVAL_STREAM {
        return Err("frame larger than the format allows");
    }
    let end = FRAME_HEADER_SIZE + packed;
    let frame = bytes.get(..end).ok_or("ends within a frame")?;
    if crc32fast::hash(&frame[8..]) != crc {
        return Err("a frame's checksum does not fit");
    }
    if number != sequence {
        return Err("a frame is missing or out of order");
    }
    let records =
        zstd::bulk::decompress(&frame[FRAME_HEADER_SIZE..], raw).map_err(|_| "a frame does not decompress")?;
    if records.len() != raw {
        return Err("a frame's length does not fit");
    }
    stream.extend_from_slice(&records);
    Ok(end)
}

/// Header of a thread's tail: the records that wait for their frame, in a file that the logger maps as its buffer,
/// so that they outlive the process. After the header come the records as they are, and then zero bytes.
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
/// The logger writes a record's first byte last, so a record that was cut off reads as the end.
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

/// A whole interval, as read from its file and the thread's tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The file's header.
    pub header: IntervalHeader,
    /// All records, encoded; see [`Records`].
    pub stream: Vec<u8>,
    /// Bytes of the file.
    pub file_size: u64,
    /// Whether the last record is an `END`. If not, the recording was cut off in this interval.
    pub complete: bool,
    /// What is wrong behind the last usable record, if anything is: byte offset in the file, and the rule.
    pub broken: Option<(u64, String)>,
}

impl Interval {
    /// Builds an interval from the bytes of its file and, where the file has no end, of its thread's tail.
    ///
    /// Every record is checked once, so that [`Self::records`] cannot fail later. A stream that is damaged in the
    /// middle is kept up to the damage, and `broken` says where that was.
    ///
    /// # Errors
    /// The header is not one of this version, or not even the first record is whole.
    pub fn decode(file: &[u8], tail: Option<&[u8]>, path: &Path) -> Result<Self> {
        let header = IntervalHeader::decode(file, path)?;
        let frames = read_frames(file, HEADER_SIZE);
        let mut stream = frames.stream;
        let mut broken = frames.broken;
        if let Some(tail) = tail
            && let Ok((tail_header, records)) = read_tail(tail, path)
            && tail_header.interval == header.interval
            && tail_header.frame == frames.count
        {
            stream.extend_from_slice(records);
        }
        let mut reader = Records::new(&stream);
        let mut usable = 0;
        let mut complete = false;
        while let Some(next) = reader.next() {
            match next {
                Ok(placed) => {
                    let first = placed.offset == 0;
                    if first != matches!(placed.record, Record::Checkpoint { .. }) {
                        broken = Some((placed.offset as u64, "a CHECKPOINT must come first and only first".into()));
                        break;
                    }
                    usable = reader.offset();
                    complete = matches!(placed.record, Record::End { .. });
                    if complete {
                        break;
                    }
                }
                Err(e) => {
                    broken = Some((e.offset as u64, e.reason.to_owned()));
                    break;
                }
            }
        }
        if usable == 0 {
            let why = broken.map_or_else(|| "no record in it".to_owned(), |(_, why)| why);
            return Err(FormatError::damaged(path, HEADER_SIZE as u64, why));
        }
        if complete && usable != stream.len() {
            broken = Some((usable as u64, "records follow the END".into()));
        }
        stream.truncate(usable);
        Ok(Self { header, stream, file_size: file.len() as u64, complete, broken })
    }

    /// The records, in order.
    pub fn records(&self) -> Records<'_> {
        Records::new(&self.stream)
    }
}
