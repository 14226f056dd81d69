//! What is mapped where, also once the program has made a folder its root in which there is no /proc.

use crate::base::descriptors::{How, OwnFile};
use bugnet_dr::space::{self, Protection};
use std::ffi::{CStr, CString};
use std::io::Read;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// Memory of equal protection that follows each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where.
    pub range: Range<u64>,
    /// What the program may do with it: bits of `PROT_*`.
    pub protection: i32,
    /// Whether it is the initial stack.
    pub stack: bool,
    /// Whether stores to it are for others, too.
    pub shared: bool,
    /// Whether it is a part of a file, or of what the kernel has a name for.
    pub named: bool,
}

/// The folder `/proc`, on a descriptor that DynamoRIO hides from the program.
static PROC: OnceLock<i32> = OnceLock::new();

/// A descriptor that is given up where there is no other; -1 while it is not there.
static RESERVE: AtomicI32 = AtomicI32::new(-1);

/// Takes hold of `/proc`.
pub fn start() {
    if let Some(folder) = bugnet_dr::file::File::open_read(c"/proc") {
        let _ = PROC.set(folder.descriptor());
    }
    if let Some(reserve) = bugnet_dr::file::File::open_read(c"/proc") {
        RESERVE.store(reserve.descriptor(), Ordering::Relaxed);
    }
}

/// Opens a file of `/proc`, as long as there are descriptors.
fn open(file: &str) -> Option<OwnFile> {
    let found = OwnFile::open(&Path::new("/proc").join(file), How::Read);
    found.or_else(|why| OwnFile::open_in(*PROC.get().ok_or(why)?, file)).ok()
}

/// A link in `/proc`: what it leads to.
fn link(path: &CStr) -> Option<Vec<u8>> {
    let (folder, mut room) = (*PROC.get()?, vec![0; 256]);
    // SAFETY: an open folder of ours, a C string, and a buffer of the given length.
    let len = unsafe { libc::readlinkat(folder, path.as_ptr(), room.as_mut_ptr().cast(), room.len()) };
    room.truncate(usize::try_from(len).ok()?);
    Some(room)
}

/// The calling process's id in the namespace in which the program began, or the one that has forked it.
pub fn id_at_start() -> Option<u32> {
    str::from_utf8(&link(c"self")?).ok()?.parse().ok()
}

/// The id, where the calling process is, of the one that has another where the program began.
pub fn id_here(at_start: u32) -> Option<u32> {
    let ids = |process: &str| {
        let (mut text, file) = (String::new(), format!("{process}/status"));
        (&*OwnFile::open_in(*PROC.get()?, &file).ok()?).read_to_string(&mut text).ok()?;
        let ids = text.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        Some(ids.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<u32>>())
    };
    let depth = ids("self")?.len();
    ids(&at_start.to_string())?.get(depth - 1).copied()
}

/// Whether there is no process any more that has this id where the program began.
pub fn is_gone(at_start: u32) -> bool {
    let (Some(folder), Ok(path)) = (PROC.get(), CString::new(at_start.to_string())) else { return false };
    // SAFETY: an open folder of ours and a C string.
    unsafe { libc::faccessat(*folder, path.as_ptr(), libc::F_OK, 0) != 0 }
}

/// Whether children of the calling thread begin in another namespace of process ids.
pub fn children_are_elsewhere() -> bool {
    let [own, children] = [link(c"thread-self/ns/pid"), link(c"thread-self/ns/pid_for_children")];
    own.is_some() && own != children
}

/// Gives up the reserve; whether there was one.
fn give_up_reserve() -> bool {
    let reserve = RESERVE.swap(-1, Ordering::AcqRel);
    // SAFETY: a descriptor of ours that nobody else has, since it was just taken.
    reserve >= 0 && unsafe { libc::close(reserve) } == 0
}

/// `/proc/self/pagemap`, where it can be read. To be asked at the end of the process: there may be no reserve left afterwards.
pub fn pagemap() -> Option<OwnFile> {
    let open = || open("self/pagemap");
    open().or_else(|| if give_up_reserve() { open() } else { None })
}

/// The text of `/proc/self/maps`.
fn text() -> String {
    let open = || open("self/maps");
    let read = |file: &OwnFile| {
        let mut text = String::new();
        let _ = (&**file).read_to_string(&mut text);
        text
    };
    if let Some(file) = open() {
        return read(&file);
    }
    // The program has used up its descriptors.
    let reserve = RESERVE.load(Ordering::Acquire);
    if !give_up_reserve() {
        return String::new();
    }
    let Some(file) = open() else { return String::new() };
    let text = read(&file);
    // SAFETY: makes another descriptor for an open file, out of the program's sight as the one before.
    let reserve = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, reserve) };
    RESERVE.store(if reserve < 0 { file.leave_open() } else { reserve }, Ordering::Release);
    text
}

fn parse(line: &str) -> Option<Region> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let allows = |letter, protection| if rest[..rest.len().min(4)].contains(letter) { protection } else { 0 };
    let protection = allows('r', libc::PROT_READ) | allows('w', libc::PROT_WRITE) | allows('x', libc::PROT_EXEC);
    let shared = rest.as_bytes().get(3) == Some(&b's');
    let (stack, named) = (line.ends_with("[stack]"), line.contains(['/', '[']));
    Some(Region { range: number(start)?..number(end)?, protection, stack, shared, named })
}

/// How many mappings there are.
pub fn count() -> u64 {
    text().lines().count() as u64
}

/// All regions, ascending.
pub fn all() -> Vec<Region> {
    text().lines().filter_map(parse).collect()
}

/// The same, each with the kernel's line about it.
pub fn all_with_lines() -> Vec<(Region, String)> {
    text().lines().filter_map(|line| Some((parse(line)?, line.to_owned()))).collect()
}

/// The same, each with the name that the kernel gives it: a path, one in brackets, or none.
pub fn all_with_names() -> Vec<(Region, String)> {
    let name = |line: &str| line.splitn(6, ' ').nth(5).unwrap_or_default().trim_start().to_owned();
    text().lines().filter_map(|line| Some((parse(line)?, name(line)))).collect()
}

/// The region that an address is in.
pub fn region_of(address: u64) -> Option<Region> {
    let Some((range, known)) = space::region_of(address) else {
        // DynamoRIO has no way to /proc of its own.
        return all().into_iter().find(|region| region.range.contains(&address));
    };
    let allows = |wanted, protection| if known.has(wanted) { protection } else { 0 };
    let protection = allows(Protection::READ, libc::PROT_READ)
        | allows(Protection::WRITE, libc::PROT_WRITE)
        | allows(Protection::EXEC, libc::PROT_EXEC);
    Some(Region { range, protection, stack: false, shared: false, named: false })
}

/// The end of the accessible mapping that holds an address.
pub fn mapped_until(address: u64) -> Option<u64> {
    let region = region_of(address)?;
    (region.protection & libc::PROT_READ != 0 && region.range.end > address).then_some(region.range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = "7ffd1000-7ffd3000 rw-p 00000000 00:00 0                  [stack]";
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        assert_eq!(
            parse(line),
            Some(Region { range: 0x7ffd_1000..0x7ffd_3000, protection, stack: true, shared: false, named: true })
        );
        let line = "00400000-00401000 --xp 00001000 fe:00 99   /home/rw/program";
        let protection = libc::PROT_EXEC;
        assert_eq!(
            parse(line),
            Some(Region { range: 0x40_0000..0x40_1000, protection, stack: false, shared: false, named: true })
        );
        assert_eq!(parse("nonsense"), None);
    }
}
