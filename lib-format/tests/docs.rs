//! FORMAT.md says what the code does: each of its tables is compared with the code.

mod common;

use bugnet_format::FORMAT_VERSION;
use bugnet_format::check::Invariant;
use bugnet_format::code::{self, CODE_PAGE_SIZE, CodeStore, PAGE};
use bugnet_format::control::{MAX_MESSAGE, MAX_READ};
use bugnet_format::files::{MAX_BINARY_FILE, MAX_JSON_FILE};
use bugnet_format::folder::{Ending, Meta, Module};
use bugnet_format::frame::{
    FRAME_HEADER_SIZE, HEADER_SIZE, Interval, IntervalHeader, MAX_FRAME, MAX_INTERVAL_STREAM, MAX_PACKED_FRAME,
    TAIL_HEADER_SIZE, TailHeader,
};
use bugnet_format::pack::{
    Kind, MAX_ENTRIES, MAX_INDEX, MAX_NAME, MAX_NAME_PART, PACK_HEADER_SIZE, PACK_TRAILER_SIZE, PACK_VERSION, Writer,
};
use bugnet_format::package::{self, Segment};
use bugnet_format::process::Origin;
use bugnet_format::record::{
    EndReason, LOAD_FORMS, LOAD_GENERAL, MAX_ORDINAL, MAX_TEXT, MAX_VALUE, OutputStream, Record, Records,
    RegisterUpdates, SpecialKind, register_number,
};
use bugnet_format::regs::{COMPARED_FLAGS, FPU_UNKNOWN, GPR_NAMES, NOTHING_KNOWN, RegisterFile};
use bugnet_format::types::{Addr, CodeSeq, Epoch, IntervalNo, Pid, ProcessId, Tid};
use std::collections::BTreeMap;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn page() -> String {
    std::fs::read_to_string(Path::new(ROOT).join("FORMAT.md")).unwrap()
}

/// What stands in backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The rows of all tables below a heading, without their head: the cells.
fn rows<'a>(page: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let mut lines =
        page.lines().skip_while(|line| line.trim_start_matches('#').trim() != heading || !line.starts_with('#'));
    assert!(lines.next().is_some(), "there is a heading {heading:?}");
    let lines: Vec<_> = lines.take_while(|line| !line.starts_with('#')).collect();
    let mut rows = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let is_rule = |line: Option<&&str>| line.is_some_and(|line| line.starts_with("|---"));
        if line.starts_with('|') && !is_rule(Some(line)) && !is_rule(lines.get(i + 1)) {
            rows.push(line.trim_matches('|').split('|').map(str::trim).collect());
        }
    }
    assert!(!rows.is_empty(), "there is a table below {heading:?}");
    rows
}

/// A number as the page writes it.
fn number(cell: &str) -> u64 {
    match cell.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => cell.parse().unwrap_or_else(|_| panic!("{cell:?} is a number")),
    }
}

/// The fields of a table with offsets: offset and size by name. They leave no gaps and fill `total` bytes.
fn layout<'a>(page: &'a str, heading: &str, total: usize) -> BTreeMap<&'a str, (usize, usize)> {
    let mut fields = BTreeMap::new();
    let mut end = 0;
    for row in rows(page, heading) {
        let (offset, size) = (number(row[0]) as usize, number(row[1]) as usize);
        assert_eq!(offset, end, "{heading}: {}", row[2]);
        end += size;
        fields.insert(quoted(row[2])[0], (offset, size));
    }
    assert_eq!(end, total, "{heading}: bytes");
    fields
}

/// Compares `bytes` with what each field must hold.
fn compare(page: &str, heading: &str, bytes: &[u8], expected: &[(&str, Vec<u8>)]) {
    let mut fields = layout(page, heading, bytes.len());
    for (name, value) in expected {
        let (offset, size) = fields.remove(name).unwrap_or_else(|| panic!("{heading} lists {name}"));
        assert_eq!(&bytes[offset..offset + size], &value[..], "{heading}: {name}");
    }
    fields.remove("zero");
    assert!(fields.is_empty(), "{heading}: {fields:?} are no fields");
}

fn le(value: u64, size: usize) -> Vec<u8> {
    value.to_le_bytes()[..size].to_vec()
}

fn version() -> (&'static str, Vec<u8>) {
    ("version", le(FORMAT_VERSION.into(), 4))
}

#[test]
fn the_page_is_about_this_version() {
    let page = page();
    assert!(page.starts_with(&format!("# The log format, version {FORMAT_VERSION}\n")));
    assert_eq!(number(rows(&page, "Versions").last().unwrap()[0]), u64::from(FORMAT_VERSION));
}

#[test]
fn headers() {
    let page = page();
    let header = IntervalHeader {
        pid: Pid(0x0102_0304),
        tid: Tid(0x1112_1314),
        interval: IntervalNo(0x2122_2324_2526_2728),
        sequence: 0x3132_3334_3536_3738,
        code_seq: CodeSeq(0x4142_4344_4546_4748),
        instructions_before: 0x5152_5354_5556_5758,
        epoch: Epoch(0x6162_6364_6566_6768),
        epoch_before: Epoch(0x7172_7374_7576_7778),
    };
    let bytes = header.encode();
    assert_eq!(bytes.len(), HEADER_SIZE);
    let expected = [
        ("magic", b"BUGNETIV".to_vec()),
        version(),
        ("pid", le(header.pid.0.into(), 4)),
        ("tid", le(header.tid.0.into(), 4)),
        ("interval", le(header.interval.0, 8)),
        ("sequence", le(header.sequence, 8)),
        ("code_seq", le(header.code_seq.0, 8)),
        ("instructions_before", le(header.instructions_before, 8)),
        ("epoch", le(header.epoch.0, 8)),
        ("epoch_before", le(header.epoch_before.0, 8)),
        ("crc", le(crc32fast::hash(&bytes[..76]).into(), 4)),
    ];
    compare(&page, "Interval header", &bytes, &expected);

    let tail = TailHeader { interval: IntervalNo(0x1122_3344_5566_7788), frame: 0x0a0b_0c0d };
    assert_eq!(tail.encode().len(), TAIL_HEADER_SIZE);
    let expected = [
        ("magic", b"BUGNETTL".to_vec()),
        version(),
        ("frame", le(tail.frame.into(), 4)),
        ("interval", le(tail.interval.0, 8)),
    ];
    compare(&page, "Tail header", &tail.encode(), &expected);

    compare(&page, "Code store header", &code::encode_header(), &[("magic", b"BUGNETCD".to_vec()), version()]);

    let mut frame = Vec::new();
    bugnet_format::frame::encode_frame(0x0102_0304, &[7; 1000], common::LEVEL, &mut frame).unwrap();
    let expected = [
        ("magic", b"BNFR".to_vec()),
        ("crc", le(crc32fast::hash(&frame[8..]).into(), 4)),
        ("number", le(0x0102_0304, 4)),
        ("raw", le(1000, 4)),
        ("packed", le((frame.len() - FRAME_HEADER_SIZE) as u64, 4)),
    ];
    compare(&page, "Frame header", &frame[..FRAME_HEADER_SIZE], &expected);

    let mut bytes = Vec::new();
    code::encode_page(CodeSeq(0x1122), Addr(0x3344_5000), &[9; PAGE], &mut bytes);
    assert_eq!(bytes.len(), CODE_PAGE_SIZE);
    let expected = [("seq", le(0x1122, 8)), ("addr", le(0x3344_5000, 8)), ("bytes", vec![9; PAGE])];
    compare(&page, "Code page", &bytes, &expected);

    let log = common::sample();
    let made = &log.threads[0].intervals[1];
    let file = common::interval_file(&made.header, &made.frames);
    let interval = Interval::decode(&file, common::NO_TAILS, Path::new("interval")).unwrap();
    let store = CodeStore::decode(&common::code_file(&log.code), Vec::new(), Path::new("code")).unwrap();
    let stream: usize = interval.replayed().iter().map(|piece| piece.len()).sum();
    let segments = [Segment { thread: 0, until: 7 }, Segment { thread: 0, until: u64::MAX }];
    let bytes = common::package(&[(Tid(9), vec![interval])], &store, &segments);
    let expected = [
        ("magic", b"BUGNETPK".to_vec()),
        version(),
        ("pages", le(3, 4)),
        ("threads", le(1, 4)),
        ("intervals", le(1, 4)),
        ("segments", le(2, 8)),
    ];
    compare(&page, "Package header", &bytes[..package::HEADER], &expected);
    let parts = [3 * CODE_PAGE_SIZE, package::THREAD, package::INTERVAL, 2 * package::SEGMENT, stream];
    assert_eq!(bytes.len(), package::HEADER + parts.iter().sum::<usize>());
}

#[test]
fn packed_file() {
    let page = page();
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.add("a/b", Kind::Stored, &b"contents"[..]).unwrap();
    writer.add("c", Kind::Folder, std::io::empty()).unwrap();
    let bytes = writer.finish().unwrap();
    let header = &bytes[..PACK_HEADER_SIZE];
    let version = ("version", le(PACK_VERSION.into(), 4));
    compare(&page, "Packed file header", header, &[("magic", b"BUGNETPF".to_vec()), version]);
    let mut index = Vec::new();
    for (name, kind, contents) in [("a/b", Kind::Stored, &b"contents"[..]), ("c", Kind::Folder, b"")] {
        index.push(name.len() as u8);
        index.extend(name.as_bytes());
        index.extend([kind as u8, contents.len() as u8, contents.len() as u8]);
        index.extend(xxhash_rust::xxh3::xxh3_64(contents).to_le_bytes());
    }
    let trailer = bytes.len() - PACK_TRAILER_SIZE;
    let packed = &bytes[PACK_HEADER_SIZE + b"contents".len()..trailer];
    assert_eq!(zstd::decode_all(packed).unwrap(), index);
    let expected = [
        ("packed", le(packed.len() as u64, 8)),
        ("raw", le(index.len() as u64, 8)),
        ("checksum", le(xxhash_rust::xxh3::xxh3_64(packed), 8)),
        ("magic", b"BUGNETPE".to_vec()),
    ];
    compare(&page, "Packed file trailer", &bytes[trailer..], &expected);
    let kinds = rows(&page, "Kinds of entries");
    let listed = kinds.iter().map(|row| (row[0].to_owned(), number(row[1])));
    let in_code = Kind::ALL.iter().map(|kind| (format!("{kind:?}").to_lowercase(), *kind as u64));
    assert_eq!(listed.collect::<Vec<_>>(), in_code.collect::<Vec<_>>());
}

#[test]
fn register_file() {
    let page = page();
    let mut regs = common::registers(5);
    for (i, reg) in regs.gpr.iter_mut().enumerate() {
        *reg = 0x1000 + i as u64;
    }
    regs.gs_base = 0x6000_2000;
    (regs.fcw, regs.fsw, regs.ftw) = (0x1234, 0x3800, 0x81);
    let mut bytes = Vec::new();
    regs.encode(&mut bytes);
    assert_eq!(bytes.len(), RegisterFile::SIZE);
    let expected = [
        ("gpr", regs.gpr.iter().flat_map(|reg| reg.to_le_bytes()).collect()),
        ("rip", le(regs.rip, 8)),
        ("rflags", le(regs.rflags, 8)),
        ("rflags_known", le(regs.rflags_known, 8)),
        ("fs_base", le(regs.fs_base, 8)),
        ("gs_base", le(regs.gs_base, 8)),
        ("mxcsr", le(regs.mxcsr.into(), 4)),
        ("fcw", le(regs.fcw.into(), 2)),
        ("fsw", le(regs.fsw.into(), 2)),
        ("ftw", vec![regs.ftw]),
        ("st", regs.st.concat()),
        ("ymm", regs.ymm.concat()),
    ];
    compare(&page, "Register file", &bytes, &expected);
    // The hash is that of the encoded file, with the flags masked.
    let known = 0x8d5;
    let mut masked = regs.clone();
    masked.rflags_known = known;
    masked.rflags &= known;
    let mut bytes = Vec::new();
    masked.encode(&mut bytes);
    assert_eq!(regs.hash(known | 1), xxhash_rust::xxh3::xxh3_64(&bytes));
    assert_eq!((FPU_UNKNOWN, NOTHING_KNOWN), (1 << 63, 1 << 62));
    let start =
        RegisterFile { rflags: 0x202 & COMPARED_FLAGS, rflags_known: COMPARED_FLAGS, ..RegisterFile::default() };
    assert_eq!((start.mxcsr, start.fcw), (0x1f80, 0x37f));
    let mut bytes = Vec::new();
    start.encode(&mut bytes);
    assert_eq!(regs.hash(NOTHING_KNOWN | COMPARED_FLAGS), xxhash_rust::xxh3::xxh3_64(&bytes));
}

#[test]
fn register_numbers() {
    let page = page();
    let rows = rows(&page, "Register numbers");
    assert_eq!(rows[0][0], "0 to 15");
    assert_eq!(quoted(rows[0][1]), GPR_NAMES);
    for row in &rows[1..] {
        let name = quoted(row[1])[0];
        let updates = RegisterUpdates { values: vec![(number(row[0]) as u8, 77)] };
        let mut regs = RegisterFile::default();
        updates.apply(&mut regs);
        let changed = match name {
            "rip" => regs.rip,
            "rflags" => regs.rflags,
            "fs_base" => regs.fs_base,
            "gs_base" => regs.gs_base,
            _ => panic!("{name} is no register"),
        };
        assert_eq!(changed, 77, "{name}");
    }
    assert_eq!(16 + rows.len() - 1, usize::from(register_number::COUNT));
}

/// Whether a reader knows the tag.
fn is_known(tag: u8) -> bool {
    let mut stream = vec![0; 2000];
    stream[0] = tag;
    !matches!(Records::new(&stream).next(), Some(Err(e)) if e.reason == "unknown record tag")
}

/// The name that the page has for a record.
fn name(record: &Record<'_>) -> String {
    let debug = format!("{record:?}");
    let variant = debug.split([' ', '{']).next().unwrap();
    let mut name = String::new();
    for (i, c) in variant.char_indices() {
        if i > 0 && c.is_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}

fn all_records() -> Vec<Record<'static>> {
    common::sample().threads.into_iter().flat_map(|t| t.intervals).flat_map(|i| i.frames).flatten().collect()
}

#[test]
fn tags() {
    let page = page();
    let mut tags = BTreeMap::new();
    for row in rows(&page, "Where the code is").iter().filter(|row| row.len() == 5) {
        let record = quoted(row[0])[0];
        tags.insert(number(row[1]) as u8, record);
        for path in quoted(row[2]) {
            assert!(Path::new(ROOT).join(path).exists(), "{record} is written by {path}");
        }
        let variant: String =
            record.split('_').map(|word| word[..1].to_owned() + &word[1..].to_ascii_lowercase()).collect();
        for path in quoted(row[3]) {
            let code = std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_default();
            assert!(code.contains(&format!("Record::{variant}")), "{record} is read by {path}");
        }
    }
    for tag in 1..0x80 {
        assert_eq!(tags.contains_key(&tag), is_known(tag), "tag {tag:#x}");
    }
    let mut seen = BTreeMap::new();
    for record in all_records() {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let tag = if bytes[0] >= 0x80 { 0x80 } else { bytes[0] };
        seen.insert(tag, name(&record));
    }
    let tags: BTreeMap<_, _> = tags.into_iter().map(|(tag, name)| (tag, name.to_owned())).collect();
    assert_eq!(tags, seen, "the sample has every record, with the tag of the page");
}

#[test]
fn paths_exist() {
    let page = page();
    for row in rows(&page, "Where the code is").iter().filter(|row| row.len() == 2) {
        for path in quoted(row[1]).iter().filter(|path| path.ends_with(".rs")) {
            assert!(Path::new(ROOT).join(path).exists(), "{path} of {:?}", row[0]);
        }
    }
}

#[test]
fn load_forms() {
    let page = page();
    let table: Vec<_> = rows(&page, "Forms of `LOAD`")
        .iter()
        .map(|row| (number(row[0]) as u8, number(row[1]) as usize, number(row[2]) as usize))
        .collect();
    assert_eq!(table, LOAD_FORMS);
    assert!(page.contains(&format!("Form {LOAD_GENERAL} is the general one")));
}

/// Reads records by the page's table of fields alone.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    fn varint(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = self.bytes[self.at];
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn field(&mut self, encoding: &str) {
        match encoding {
            "u8" => self.at += 1,
            "u64" | "i64" => self.at += 8,
            "varint" => {
                self.varint();
            }
            "6 varint" => (0..6).for_each(|_| self.field("varint")),
            "bytes" => {
                let len = self.varint();
                self.at += len as usize;
            }
            "registers" => self.at += 769,
            "updates" => {
                let mask = self.varint();
                self.at += 8 * mask.count_ones() as usize;
            }
            "reason" => {
                let page = page();
                let reason = self.bytes[self.at];
                self.at += 1;
                let row = rows(&page, "Reasons of an end").into_iter().find(|row| number(row[0]) == u64::from(reason));
                let fields = row.expect("the reason is listed")[2].split([',', ':']).map(str::trim);
                for field in fields {
                    match field.split(' ').next().unwrap() {
                        "i32" | "u32" => self.at += 4,
                        "u64" => self.at += 8,
                        "bytes" => self.field("bytes"),
                        _ => {}
                    }
                }
            }
            _ => panic!("{encoding:?} is an encoding"),
        }
    }
}

#[test]
fn fields_of_records() {
    let page = page();
    let table = rows(&page, "Records");
    let mut records = all_records();
    for reason in [
        EndReason::Exit { status: 3 },
        EndReason::Unsupported { why: "no".into() },
        EndReason::LogStopped { why: "the disk is full".into() },
        EndReason::Exec,
        EndReason::Terminated,
    ] {
        records.push(common::end(1, reason, 1));
    }
    for record in records {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let mut walk = Walk { bytes: &bytes, at: 1 };
        if bytes[0] >= 0x80 && bytes[0] & 0x1f != LOAD_GENERAL {
            walk.varint();
            walk.at += LOAD_FORMS[usize::from(bytes[0] & 0x1f)].1;
        } else {
            let name = name(&record);
            let fields: Vec<_> = table.iter().filter(|row| quoted(row[0]) == [name.as_str()]).collect();
            assert!(!fields.is_empty(), "{name} has fields");
            assert_eq!(fields.iter().any(|row| row[1] == "delta"), record.has_position() && name != "CHECKPOINT");
            fields.iter().for_each(|row| walk.field(row[2]));
        }
        assert_eq!(walk.at, bytes.len(), "{record:?}");
    }
}

#[test]
fn kinds_and_reasons() {
    let page = page();
    let kinds: Vec<_> = rows(&page, "Special instructions")
        .iter()
        .map(|row| (number(row[0]) as u8, quoted(row[1])[0].to_owned()))
        .collect();
    let in_code = SpecialKind::ALL.map(|kind| (kind as u8, json_name(serde_json::to_value(kind).unwrap())));
    assert_eq!(kinds, in_code);

    let reasons = [
        EndReason::Full,
        EndReason::Exit { status: 0 },
        EndReason::Signal { signo: 1, code: 0, addr: Addr(0) },
        EndReason::Unsupported { why: String::new() },
        EndReason::LogStopped { why: String::new() },
        EndReason::Exec,
        EndReason::Terminated,
    ];
    let in_code = reasons.map(|reason| {
        let name = json_name(serde_json::to_value(&reason).unwrap()["reason"].clone());
        let mut bytes = Vec::new();
        common::end(0, reason, 0).encode(&mut bytes);
        (bytes[2], name)
    });
    let listed: Vec<_> = rows(&page, "Reasons of an end")
        .iter()
        .map(|row| (number(row[0]) as u8, quoted(row[1])[0].to_owned()))
        .collect();
    assert_eq!(listed, in_code);

    let streams: Vec<_> = OutputStream::ALL.iter().map(|stream| *stream as u8).collect();
    assert_eq!(streams, [0, 1, 2]);
    assert!(page.contains("0 other, 1 standard output, 2 standard error"));
}

fn json_name(value: serde_json::Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn json_fields() {
    let page = page();
    let log = common::sample();
    let keys = |value: serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let listed = |heading: &str| {
        let mut fields: Vec<_> = rows(&page, heading).iter().map(|row| quoted(row[0])[0].to_owned()).collect();
        fields.sort();
        fields
    };
    let sorted = |mut fields: Vec<String>| {
        fields.sort();
        fields
    };
    // The field is left out where there is nothing to say.
    let meta = Meta { chaos: Some(7), ..log.meta.clone() };
    assert_eq!(listed("`recording.json`"), sorted(keys(serde_json::to_value(&meta).unwrap())));
    assert_eq!(listed("`process.json`"), sorted(keys(serde_json::to_value(&log.process).unwrap())));
    let from = ProcessId::from(Pid(1));
    let origins = [Origin::Start, Origin::Fork { from, code_pages: 2 }, Origin::Exec { from }, Origin::Spawn { from }];
    let how = |origin: &Origin| json_name(serde_json::to_value(origin).unwrap()["how"].clone());
    assert_eq!(listed("Origins of a process"), sorted(origins.iter().map(how).collect()));
    assert_eq!(
        serde_json::to_string(&origins[1]).unwrap(),
        r#"{"how":"fork","from":{"pid":1,"program":0},"code_pages":2}"#
    );
    let module: &Module = &log.modules[0];
    assert_eq!(listed("`modules.jsonl`"), sorted(keys(serde_json::to_value(module).unwrap())));
    for (ending, json) in [
        (Ending::Unknown, r#"{"how":"unknown"}"#),
        (Ending::Exited { status: 3 }, r#"{"how":"exited","status":3}"#),
        (Ending::Killed { signal: 9 }, r#"{"how":"killed","signal":9}"#),
    ] {
        assert_eq!(serde_json::to_string(&ending).unwrap(), json);
    }
}

#[test]
fn limits() {
    let page = page();
    let listed: BTreeMap<_, _> = rows(&page, "Limits").iter().map(|row| (quoted(row[0])[0], number(row[1]))).collect();
    let in_code = BTreeMap::from([
        ("MAX_FRAME", MAX_FRAME as u64),
        ("MAX_PACKED_FRAME", MAX_PACKED_FRAME as u64),
        ("MAX_INTERVAL_STREAM", MAX_INTERVAL_STREAM as u64),
        ("MAX_VALUE", MAX_VALUE as u64),
        ("MAX_TEXT", MAX_TEXT as u64),
        ("MAX_ORDINAL", MAX_ORDINAL.into()),
        ("PAGE", PAGE as u64),
        ("USER_END", Addr::USER_END),
        ("MAX_JSON_FILE", MAX_JSON_FILE),
        ("MAX_BINARY_FILE", MAX_BINARY_FILE),
        ("MAX_INDEX", MAX_INDEX),
        ("MAX_ENTRIES", MAX_ENTRIES),
        ("MAX_NAME", MAX_NAME as u64),
        ("MAX_NAME_PART", MAX_NAME_PART as u64),
        ("MAX_MESSAGE", MAX_MESSAGE as u64),
        ("MAX_READ", MAX_READ),
    ]);
    assert_eq!(listed, in_code);
}

#[test]
fn invariants() {
    let page = page();
    let listed: Vec<_> = rows(&page, "Invariants").iter().map(|row| (quoted(row[0])[0], row[1])).collect();
    let in_code: Vec<_> = Invariant::ALL.iter().map(|i| (i.name(), i.rule())).collect();
    assert_eq!(listed, in_code);
}
