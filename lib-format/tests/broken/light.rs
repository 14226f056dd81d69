//! A light log that keeps the rules, and how it is changed.

use bugnet_format::check::{Report, check_light};
use bugnet_format::light::{FileKey, LIGHT_FILES, LIGHT_FOLDER, layout as l};
use std::fs;
use std::path::{Path, PathBuf};

const KEY: FileKey = FileKey([1, 2, 4, 3]);
const PARENT: u64 = 7;
const CHILD: u64 = 8;
/// A process of which only an epoch is there.
const LATE: u64 = 9;
const MMAP: u64 = 9;
const FORK: u64 = 57;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn record(kind: u16, number: u16, body: &[u8]) -> Vec<u8> {
    let len = (l::HEAD + body.len()).next_multiple_of(8);
    let mut bytes = words(&[len as u64 | u64::from(kind) << 32 | u64::from(number) << 48]);
    bytes.extend_from_slice(body);
    bytes.resize(len, 0);
    bytes
}

fn call(number: u64, result: u64) -> Vec<u8> {
    record(l::CALL, 0, &words(&[number, 0, 0, 0, 0, 0, 0, result, 0]))
}

/// The records of the first process.
fn records() -> [Vec<u8>; 9] {
    let key = words(&KEY.0);
    [
        record(l::PROGRAM, 0, b"/bin/true\0true\0true\0"),
        record(l::MAP, 0, &[&words(&[0x1000, 4, 5, l::OF_FILE, 0]), &key[..], b"/bin/true\0"].concat()),
        record(l::START, 0, &words(&[1, 2, 3, 4, 0])),
        record(l::FILE, 0, &[&key[..], &words(&[0, 4]), b"/lib"].concat()),
        call(MMAP, 0x2000),
        call(FORK, CHILD),
        record(l::MOMENT, 0, &words(&[0; 19])),
        record(l::SIGNAL, 14, &words(&[0; 21])),
        record(l::END, l::EXITS, &words(&[0; 8])),
    ]
}

fn file(log: &Path, name: &str) -> PathBuf {
    log.join(LIGHT_FOLDER).join(name)
}

fn write(log: &Path, process: u64, origin: u64, records: &[Vec<u8>]) {
    write_part(log, (process, origin), 0, records);
}

fn write_part(log: &Path, (process, origin): (u64, u64), part: u64, records: &[Vec<u8>]) {
    let mut bytes = vec![0; l::HEADER];
    let used = l::HEADER + records.iter().map(Vec::len).sum::<usize>();
    let fields =
        [(0, l::MAGIC), (l::PROCESS, process), (l::ORIGIN, origin), (l::USED, used as u64), (l::PART_NUMBER, part)];
    let from = if origin == 0 { 0 } else { PARENT };
    for (at, word) in fields.into_iter().chain([(l::FROM, from)]) {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes.extend(records.concat());
    let behind = if part > 0 { format!(".{part}") } else { String::new() };
    fs::write(file(log, &format!("p{process}.0{behind}")), bytes).unwrap();
}

/// Writes one with these records of the first process.
fn write_all(log: &Path, records: &[Vec<u8>]) {
    fs::create_dir_all(file(log, LIGHT_FILES)).unwrap();
    fs::write(file(log, LIGHT_FILES).join(KEY.name()), b"file").unwrap();
    write(log, PARENT, 0, records);
    let at = l::HEADER + self::records()[..5].iter().map(Vec::len).sum::<usize>();
    write(log, CHILD, u64::from(l::FORKED) | (at as u64) << 32, &[call(FORK, 0)]);
    write(log, LATE, 0, &self::records()[..3]);
    let epoch = [
        record(l::EPOCH, 0, &words(&[0x5000, 0, 3, 0])),
        record(l::THREAD, 0, &[words(&[0; 21]), vec![0; l::STATE]].concat()),
        record(l::END, l::EXITS, &words(&[0; 8])),
    ];
    write_part(log, (LATE, 0), 3, &epoch);
    let region = [words(&[0x1000, 0x2000, 3, l::ZEROS, 0, 0, 0, 0, 0, 0]), words(&[0x1000, 0])];
    let list = [words(&[l::MEMORY_MAGIC, region[0].len() as u64, 1]), region.concat()].concat();
    fs::write(file(log, LIST), list).unwrap();
    fs::write(file(log, "p9.0.pages"), [1; l::PAGE]).unwrap();
}

/// The list of the memory where that one begins.
const LIST: &str = "p9.0.3.memory";

/// Writes one that keeps all rules.
pub fn sound(log: &Path) {
    write_all(log, &records());
}

pub fn checked(log: &Path) -> Report {
    let mut report = Report::default();
    check_light(log, &mut report, |_| true).unwrap();
    report
}

/// Another process's header.
pub fn part(log: &Path) {
    let path = file(log, "p7.0");
    let mut bytes = fs::read(&path).unwrap();
    bytes[l::PART_NUMBER] = 5;
    fs::write(path, bytes).unwrap();
}

/// A kind that no record has.
pub fn form(log: &Path) {
    let mut records = records();
    records[7][4] = 99;
    write_all(log, &records);
}

/// Something behind the end.
pub fn order(log: &Path) {
    let behind = [call(MMAP, 0x3000)];
    write_all(log, &[&records()[..], &behind].concat());
}

/// A fork that the parent's log does not have.
pub fn origin(log: &Path) {
    write(log, CHILD, u64::from(l::FORKED) | (l::HEADER as u64) << 32, &[call(FORK, 0)]);
}

/// A mapped file that is not whole.
pub fn cut_file(log: &Path) {
    fs::write(file(log, LIGHT_FILES).join(KEY.name()), b"fi").unwrap();
}

/// A page that is nowhere.
pub fn memory(log: &Path) {
    let path = file(log, LIST);
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() = 1;
    fs::write(path, bytes).unwrap();
}
