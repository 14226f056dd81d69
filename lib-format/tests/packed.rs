//! Packed files: what is written is read, and a stranger's file leads nowhere but to an error.

mod common;

use bugnet_format::FormatError;
use bugnet_format::check::check;
use bugnet_format::folder::Recording;
use bugnet_format::pack::{
    Kind, MAX_INDEX, MAX_NAME, MAX_NAME_PART, PACK_END_MAGIC, PACK_HEADER_SIZE, PACK_MAGIC, PACK_VERSION, Pack, Writer,
};
use bugnet_format::source::Source;
use proptest::prelude::*;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use xxhash_rust::xxh3::xxh3_64;

/// Writes a packed file with these entries.
fn packed(entries: &[(&str, Kind, &[u8])]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (name, kind, contents) in entries {
        writer.add(name, *kind, *contents).unwrap();
    }
    writer.finish().unwrap()
}

/// An entry of an index, as it is said to be.
#[derive(Clone, Copy)]
struct Said<'a> {
    name: &'a [u8],
    kind: u8,
    size: u64,
    packed: u64,
}

fn file(name: &str) -> Said<'_> {
    Said { name: name.as_bytes(), kind: 0, size: 1, packed: 1 }
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn index(entries: &[Said<'_>]) -> Vec<u8> {
    let mut index = Vec::new();
    for entry in entries {
        varint(&mut index, entry.name.len() as u64);
        index.extend(entry.name);
        index.push(entry.kind);
        varint(&mut index, entry.size);
        varint(&mut index, entry.packed);
        index.extend(xxh3_64(b"x").to_le_bytes());
    }
    index
}

/// A packed file with this index behind these contents, the checksum of which fits.
fn with_index(contents: &[u8], index: &[u8], raw: u64) -> Vec<u8> {
    let mut file = PACK_MAGIC.to_vec();
    file.extend(PACK_VERSION.to_le_bytes());
    file.extend([0; 4]);
    file.extend(contents);
    let packed = zstd::bulk::compress(index, 3).unwrap();
    file.extend(&packed);
    for number in [packed.len() as u64, raw, xxh3_64(&packed)] {
        file.extend(number.to_le_bytes());
    }
    file.extend(PACK_END_MAGIC);
    file
}

fn said(entries: &[Said<'_>]) -> Vec<u8> {
    let index = index(entries);
    with_index(&b"x".repeat(entries.len()), &index, index.len() as u64)
}

struct Bytes(Vec<u8>);

impl bugnet_format::pack::ReadAt for Bytes {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..)).unwrap_or_default();
        // In small pieces.
        let len = rest.len().min(buffer.len()).min(1000);
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

fn open(bytes: &[u8]) -> Result<Pack, FormatError> {
    Pack::open(Arc::new(Bytes(bytes.to_vec())), Path::new("packed"))
}

fn read(pack: &Pack, name: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pack.open_file(name)?.0.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Packs a folder.
fn pack_folder(folder: &Path) -> Vec<u8> {
    fn walk(top: &Path, folder: &Path, all: &mut Vec<(String, Option<Vec<u8>>)>) {
        let name = |path: &Path| path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
        let mut is_empty = true;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            is_empty = false;
            if path.is_dir() { walk(top, &path, all) } else { all.push((name(&path), Some(fs::read(&path).unwrap()))) }
        }
        if is_empty {
            all.push((name(folder), None));
        }
    }
    let mut all = Vec::new();
    walk(folder, folder, &mut all);
    all.sort();
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (name, contents) in &all {
        let kind = match contents {
            None => Kind::Folder,
            Some(_) if name.ends_with(".bni") => Kind::Stored,
            Some(_) => Kind::Compressed,
        };
        writer.add(name, kind, contents.as_deref().unwrap_or_default()).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn what_is_written_is_read() {
    let long = b"0123456789".repeat(100_000);
    let entries: &[(&str, Kind, &[u8])] = &[
        ("a", Kind::Stored, b""),
        ("b", Kind::Compressed, b""),
        ("elf", Kind::Folder, b""),
        ("p1.1/t1/x", Kind::Stored, &long),
        ("p1.1/t1.1/x", Kind::Stored, b"other"),
        ("p1/t1/x", Kind::Compressed, &long),
        ("p1/t1/y", Kind::Stored, b"y"),
    ];
    let mut entries = entries.to_vec();
    entries.sort_by_key(|(name, ..)| *name);
    let bytes = packed(&entries);
    assert!(bytes.len() < long.len() + 2000);
    assert_eq!(bytes, packed(&entries));
    let pack = open(&bytes).unwrap();
    for (name, kind, contents) in &entries {
        if *kind == Kind::Folder {
            assert_eq!(read(&pack, name).unwrap_err().kind(), ErrorKind::IsADirectory);
        } else {
            assert_eq!(read(&pack, name).unwrap(), *contents, "{name}");
        }
    }
    let names = |folder: &str| {
        let mut names = pack.names(folder).unwrap();
        names.sort_unstable();
        names
    };
    assert_eq!(names(""), ["a", "b", "elf", "p1", "p1.1"]);
    assert_eq!(names("p1.1"), ["t1", "t1.1"]);
    assert_eq!(names("p1/t1"), ["x", "y"]);
    assert_eq!(names("elf"), Vec::<&str>::new());
    for (folder, kind) in [("a", ErrorKind::NotADirectory), ("p", ErrorKind::NotFound), ("p1/", ErrorKind::NotFound)] {
        assert_eq!(pack.names(folder).unwrap_err().kind(), kind);
    }
    for (name, kind) in [("p1", ErrorKind::IsADirectory), ("p1/t1/z", ErrorKind::NotFound), ("", ErrorKind::NotFound)] {
        assert_eq!(read(&pack, name).unwrap_err().kind(), kind, "{name}");
    }
}

#[test]
fn a_log_is_the_same_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    common::sample().write(&log);
    // What a kill leaves, too.
    fs::create_dir_all(log.join("p1/t1")).unwrap();
    let path = folder.path().join("packed");
    fs::write(&path, pack_folder(&log)).unwrap();
    let (one, other) = (Recording::open(&log).unwrap(), Recording::open(&path).unwrap());
    assert_eq!((&one.meta, one.processes().unwrap()), (&other.meta, other.processes().unwrap()));
    assert_eq!(one.contents().unwrap(), other.contents().unwrap());
    let report = |recording: &Recording| {
        let report = check(recording).unwrap();
        let findings =
            report.findings.iter().map(|f| (f.file.strip_prefix(&recording.path).unwrap().to_owned(), f.offset));
        (findings.collect::<Vec<_>>(), report.records, report.instructions, report.is_complete())
    };
    assert_eq!(report(&one), report(&other));
    assert_eq!(other.source.size(&path.join("p1")), 0);
    let intervals = one.threads().unwrap()[1].intervals.len();
    assert_eq!(intervals, other.threads().unwrap()[1].intervals.len());
    // Damage in a file is said to be in that file.
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(8).position(|window| window == b"BUGNETIV").unwrap();
    bytes[at + 30] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = check(&Recording::open(&path).unwrap()).map(drop).unwrap_err();
    assert!(matches!(&error, FormatError::Damaged { path, .. } if path.to_str().unwrap().ends_with(".bni")), "{error}");
}

#[test]
fn names_lead_down_or_are_refused() {
    assert!(open(&said(&[file("a"), file("b/c")])).is_ok());
    let part = "x".repeat(MAX_NAME_PART + 1);
    let whole = "x/".repeat(MAX_NAME / 2) + "y";
    let wrong = ["", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", "./a", "a\0b", &part, &whole];
    for name in wrong {
        let error = open(&said(&[file(name)])).map(drop).unwrap_err();
        assert!(matches!(error, FormatError::Damaged { .. }), "{name:?}: {error}");
        assert!(Writer::new(Vec::new()).unwrap().add(name, Kind::Stored, &b"x"[..]).is_err(), "{name:?}");
    }
    let not_text = Said { name: b"a\xff", ..file("") };
    assert!(open(&said(&[not_text])).is_err());
    for pair in [["a", "a"], ["b", "a"], ["a", "a/b"]] {
        let entries = pair.map(file);
        assert!(open(&said(&entries)).is_err(), "{pair:?}");
    }
    assert!(open(&said(&[file("a"), file("a.b"), file("a/b")])).is_err(), "a file that is a folder, too");
    let folder = Said { kind: 2, size: 0, packed: 0, ..file("a") };
    let index = index(&[folder, Said { name: b"a/b", ..file("") }]);
    assert!(open(&with_index(b"x", &index, index.len() as u64)).is_err());
}

#[test]
fn sizes_are_true_or_refused() {
    let one = file("a");
    for wrong in [
        Said { kind: 3, ..one },
        Said { kind: 255, ..one },
        Said { kind: 2, ..one },
        Said { size: 2, ..one },
        Said { packed: 2, size: 2, ..one },
        Said { packed: u64::MAX, size: u64::MAX, ..one },
        Said { packed: 0, size: 0, ..one },
    ] {
        let error = open(&said(&[wrong])).map(drop).unwrap_err();
        assert!(matches!(error, FormatError::Damaged { .. }), "{error}");
    }
    assert!(open(&said(&[Said { packed: u64::MAX, size: u64::MAX, ..one }, file("b")])).is_err());
    // A compressed file that is not what it is said to be.
    let bytes = packed(&[("a", Kind::Compressed, &[7; 1000])]);
    let packed_len = zstd::bulk::compress(&[7; 1000], 12).unwrap().len() as u64;
    for size in [999, 1001, u64::MAX] {
        let index = index(&[Said { name: b"a", kind: 1, size, packed: packed_len }]);
        let contents = &bytes[PACK_HEADER_SIZE..PACK_HEADER_SIZE + packed_len as usize];
        let pack = open(&with_index(contents, &index, index.len() as u64)).unwrap();
        assert_eq!(read(&pack, "a").unwrap_err().kind(), ErrorKind::InvalidData, "{size} bytes");
    }
    // An index that is a bomb, or another length than it says.
    let bomb = vec![0; 100 << 20];
    assert!(open(&with_index(b"", &bomb, 1000)).is_err());
    assert!(open(&with_index(b"", &bomb, MAX_INDEX + 1)).is_err());
    assert!(open(&with_index(b"", b"", 1)).is_err());
    assert!(open(&with_index(b"", b"", u64::MAX)).is_err());
}

#[test]
fn what_is_cut_off_or_foreign_is_told() {
    let bytes = packed(&[("a", Kind::Stored, &[1; 500]), ("b", Kind::Compressed, &[2; 500])]);
    for len in 0..bytes.len() {
        let error = open(&bytes[..len]).map(drop).unwrap_err();
        let text = error.to_string();
        if len < PACK_MAGIC.len() {
            assert!(matches!(error, FormatError::NotALog { .. }), "{len}: {text}");
        } else {
            assert!(matches!(error, FormatError::Damaged { .. }), "{len}: {text}");
            assert!(text.contains("ends too early"), "{len}: {text}");
        }
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(open(&longer).is_err());
    let mut newer = bytes.clone();
    newer[8] = 99;
    assert!(matches!(open(&newer), Err(FormatError::Version { found: 99, .. })));
    assert!(open(b"\x7fELF and so on, for more than a few bytes of what is no packed file").is_err());
    // Other things than files are not waited for.
    for path in ["/dev/null", "/dev/zero", "/proc"] {
        assert!(Source::open(Path::new(path)).unwrap().pack().is_none(), "{path}");
        assert!(Recording::open(Path::new(path)).is_err(), "{path}");
    }
}

const ENTRIES: &[(&str, Kind, &[u8])] =
    &[("a", Kind::Stored, &[1; 300]), ("b", Kind::Folder, b""), ("c/d", Kind::Compressed, &[2; 3000])];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is altered, reading neither panics nor gives other bytes than those that were packed.
    #[test]
    fn altered_files(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        /// Packing takes longer than all else here.
        static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| packed(ENTRIES));
        let mut bytes = WHOLE.clone();
        let at = at.index(bytes.len());
        bytes[at] ^= byte;
        if byte == 0 {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(pack) = open(&bytes) {
            for (name, kind, contents) in ENTRIES {
                if let (Ok(read), false) = (read(&pack, name), *kind == Kind::Folder) {
                    prop_assert_eq!(&read[..], *contents);
                }
            }
        }
    }

    /// An index of any bytes.
    #[test]
    fn any_index(index in prop::collection::vec(any::<u8>(), 0..200), contents in 0..300usize) {
        let bytes = with_index(&vec![b'x'; contents], &index, index.len() as u64);
        if let Ok(pack) = open(&bytes) {
            for (name, kind, _) in pack.entries() {
                let below = Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_)));
                prop_assert!(below);
                if kind == Kind::Stored {
                    let _ = read(&pack, name);
                }
            }
        }
    }
}
