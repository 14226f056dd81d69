//! `/proc/self/maps` as the program reads it. The recorder's shadows and tables are not there: they make way for what the program maps, and programs look
//! whether there is room for that (MemorySanitizer). What else the recorder and DynamoRIO have mapped is, so that nobody takes the room for free, but as memory that
//! cannot be accessed and has no name: programs end themselves where they find what they do not know (ThreadSanitizer), and may access what is accessible.
//!
//! The text is made when a program begins to read, as of that moment. How far it has come is kept by the kernel, as the position in its own text, which is longer:
//! so all who have the descriptor read on where the last one came to.

use crate::base::lock::{Mutex, MutexGuard};
use crate::base::maps;
use crate::base::memory::write_memory;
use crate::base::options;
use crate::base::process;
use crate::kernel::arguments::string;
use crate::kernel::{joined, memory_limit};
use crate::picture::shadow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// An open file.
struct Open {
    fd: u64,
    /// What was read of it last.
    text: Vec<u8>,
}

static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());
/// Whether there is one.
static ANY: AtomicBool = AtomicBool::new(false);

fn open() -> MutexGuard<'static, Vec<Open>> {
    OPEN.lock()
}

/// Whether a descriptor is of this process's list.
fn is_list(fd: u64) -> bool {
    let Ok(target) = std::fs::read_link(format!("/proc/self/fd/{fd}")) else { return false };
    let own = PathBuf::from(format!("/proc/{}", process::current_pid()));
    let rest = target.strip_prefix(own).map(Path::to_path_buf).unwrap_or_default();
    rest.file_name().is_some_and(|name| name == "maps") && matches!(rest.iter().count(), 1 | 3)
}

/// A system call has opened a file, with this path and descriptor.
pub fn opened(number: i64, args: &[u64; 6], fd: i64) {
    let path = match number {
        libc::SYS_open => args[0],
        libc::SYS_openat | libc::SYS_openat2 => args[1],
        _ => return,
    };
    let Ok(fd) = u64::try_from(fd) else { return };
    if string(path).is_some_and(|path| path.ends_with(b"maps")) && is_list(fd) {
        let mut open = open();
        open.retain(|file| file.fd != fd);
        open.push(Open { fd, text: Vec::new() });
        ANY.store(true, Ordering::SeqCst);
    }
}

/// The result of a system call that reads the list; none if it is another call.
pub fn instead(number: i64, args: &[u64; 6]) -> Option<i64> {
    let at_position = number == libc::SYS_pread64;
    if !ANY.load(Ordering::Relaxed) || !(at_position || number == libc::SYS_read) {
        return None;
    }
    let mut open = open();
    let index = open.iter().position(|file| file.fd == args[0])?;
    if !is_list(args[0]) {
        // It was closed.
        open.swap_remove(index);
        return None;
    }
    let fd = args[0] as i32;
    // SAFETY: asks where the program is in a file of its own.
    let position = if at_position { args[3] as i64 } else { unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) } };
    let position = usize::try_from(position).ok()?;
    let text = &mut open[index].text;
    if position == 0 || text.is_empty() {
        *text = shown();
    }
    let rest = text.get(position..).unwrap_or_default();
    let piece = &rest[..rest.len().min(usize::try_from(args[2]).unwrap_or(usize::MAX))];
    if !write_memory(args[1], piece) {
        return Some(-i64::from(libc::EFAULT));
    }
    if !at_position && !piece.is_empty() {
        // SAFETY: the position of a file that the program reads by this call.
        unsafe { libc::lseek(fd, (position + piece.len()) as i64, libc::SEEK_SET) };
    }
    Some(piece.len() as i64)
}

/// The text.
fn shown() -> Vec<u8> {
    let others = memory_limit::others();
    let log = options::get().log.to_string_lossy().into_owned();
    let mut shown = String::new();
    for (region, line) in maps::all_with_lines() {
        let name = line.splitn(6, ' ').nth(5).unwrap_or_default().trim_start();
        if shadow::is_ours(region.range.start) {
            continue;
        }
        let hidden = match name.starts_with(&log) {
            true => vec![region.range.clone()],
            false => joined::not_the_programs(&region.range, &others).into_iter().collect(),
        };
        show(&mut shown, &region.range, &line, &hidden);
    }
    shown.into_bytes()
}

/// Adds a line of the kernel's, about this range, of which parts are hidden, in ascending order.
fn show(text: &mut String, range: &Range<u64>, line: &str, hidden: &[Range<u64>]) {
    const NOTHING: &str = "---p 00000000 00:00 0 ";
    let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
    let mut add = |range: Range<u64>, rest: &str| {
        if !range.is_empty() {
            text.push_str(&format!("{:08x}-{:08x} {rest}\n", range.start, range.end));
        }
    };
    let mut at = range.start;
    for hidden in hidden {
        let begin = hidden.start.max(at);
        add(at..begin, &moved(rest, at - range.start));
        add(begin..hidden.end.max(begin), NOTHING);
        at = hidden.end.max(begin);
    }
    add(at..range.end, &moved(rest, at - range.start));
}

/// What stands behind the addresses, where they begin so many bytes later.
fn moved(rest: &str, by: u64) -> String {
    let mut fields: Vec<String> = rest.splitn(3, ' ').map(str::to_owned).collect();
    if let Some(offset) = fields.get_mut(1)
        && by != 0
        && !rest.contains(" 00:00 ")
        && let Ok(value) = u64::from_str_radix(offset, 16)
    {
        *offset = format!("{:08x}", value + by);
    }
    fields.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice::from_ref;

    #[test]
    fn what_is_ours_cannot_be_accessed() {
        let shown = |line: &str, hidden: &[Range<u64>]| {
            let mut text = String::new();
            show(&mut text, &(0x1000_0000..0x1000_4000), line, hidden);
            text
        };
        let file = "10000000-10004000 r-xp 00001000 fe:00 7                          /lib/a b";
        assert_eq!(shown(file, &[]), format!("{file}\n"));
        assert_eq!(shown(file, from_ref(&(0x1000_0000..0x1000_4000))), "10000000-10004000 ---p 00000000 00:00 0 \n");
        assert_eq!(
            shown(file, from_ref(&(0x1000_1000..0x1000_2000))),
            "10000000-10001000 r-xp 00001000 fe:00 7                          /lib/a b\n\
             10001000-10002000 ---p 00000000 00:00 0 \n\
             10002000-10004000 r-xp 00003000 fe:00 7                          /lib/a b\n"
        );
        let anonymous = "10000000-10004000 rw-p 00000000 00:00 0 ";
        assert_eq!(
            shown(anonymous, from_ref(&(0x1000_0000..0x1000_1000))),
            "10000000-10001000 ---p 00000000 00:00 0 \n10001000-10004000 rw-p 00000000 00:00 0 \n"
        );
    }
}
