//! What arguments of system calls point at.

use super::names;
use bugnet_system_calls::names::{DOMAIN, EPOLL, POLL, SA};
use bugnet_system_calls::{Shape, Size};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of a text that are shown.
pub(super) const SHOWN: usize = 32;
/// Elements of a list that are shown.
const ELEMENTS: u64 = 8;
/// Most bytes of a structure that is asked for.
const MAX_STRUCTURE: u64 = 512;

/// Memory when a call was made, and when it was over. Nothing of a byte that is not known.
pub(super) trait Pointed {
    /// What argument number `arg`, or what that points at, points at when the call is made.
    fn before(&mut self, arg: usize, addr: u64, len: u64) -> Vec<Option<u8>>;
    /// What the call has left there.
    fn after(&mut self, arg: usize, addr: u64, len: u64) -> Vec<Option<u8>>;
}

/// A call, of which an argument is written.
pub(super) struct Context<'a> {
    pub args: &'a [u64; 6],
    /// Nothing if it did not return.
    pub result: Option<i64>,
    pub memory: &'a mut dyn Pointed,
}

/// Some bytes, of which not all need be known.
struct Piece(Vec<Option<u8>>);

impl Piece {
    fn is_unknown(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    fn number(&self, at: usize, len: usize) -> Option<u64> {
        let bytes: Option<Vec<u8>> = self.0.get(at..at + len)?.iter().copied().collect();
        Some(bytes?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// `name=number`, or `name=?`.
    fn field(&self, name: &str, at: usize, len: usize, show: impl Fn(u64) -> String) -> String {
        format!("{name}={}", self.number(at, len).map_or_else(|| "?".to_owned(), show))
    }
}

fn decimal(value: u64) -> String {
    value.cast_signed().to_string()
}

impl Context<'_> {
    fn read(&mut self, is_out: bool, arg: usize, addr: u64, len: u64) -> Piece {
        if len == 0 {
            return Piece(Vec::new());
        }
        let mut bytes = if is_out { self.memory.after(arg, addr, len) } else { self.memory.before(arg, addr, len) };
        bytes.resize(len as usize, None);
        Piece(bytes)
    }

    /// Whether the call has failed, or not returned: it has written nothing then.
    fn failed(&self) -> bool {
        self.result.is_none_or(|result| result < 0)
    }

    fn size(&mut self, size: Size) -> Option<u64> {
        match size {
            Size::Fixed(size) => Some(size),
            Size::OfArg(arg) => Some(self.args[arg]),
            Size::Result => u64::try_from(self.result?).ok(),
            Size::At(arg) => self.read(false, arg, self.args[arg], 4).number(0, 4),
        }
    }

    /// What an argument points at. An address, if nothing of it is known.
    pub fn pointed(&mut self, arg: usize, shape: Shape, is_in: bool, is_out: bool) -> String {
        let addr = self.args[arg];
        if addr == 0 {
            return "NULL".into();
        }
        let is_out = is_out && !(is_in && self.failed());
        let shown = if is_out && self.failed() { None } else { self.shown(arg, addr, shape, is_out) };
        shown.unwrap_or_else(|| format!("{addr:#x}"))
    }

    fn shown(&mut self, arg: usize, addr: u64, shape: Shape, is_out: bool) -> Option<String> {
        let structure = |context: &mut Self, len| {
            Some(context.read(is_out, arg, addr, len)).filter(|piece: &Piece| !piece.is_unknown())
        };
        let braces = |fields: Vec<String>| format!("{{{}}}", fields.join(", "));
        Some(match shape {
            Shape::Opaque(_) => return None,
            Shape::Bytes(size) => {
                let len = self.size(size)?;
                return text(&self.read(is_out, arg, addr, len.min(SHOWN as u64)).0, len);
            }
            Shape::Stat => {
                let mode = structure_at(self, is_out, arg, addr.wrapping_add(24), 4)?;
                let size = self.read(is_out, arg, addr.wrapping_add(48), 8);
                braces(vec![mode.field("st_mode", 0, 4, file_mode), size.field("st_size", 0, 8, decimal), "...".into()])
            }
            Shape::Timespec | Shape::Timeval => {
                let piece = structure(self, 16)?;
                let part = if matches!(shape, Shape::Timespec) { "tv_nsec" } else { "tv_usec" };
                braces(vec![piece.field("tv_sec", 0, 8, decimal), piece.field(part, 8, 8, decimal)])
            }
            Shape::Rlimit => {
                let piece = structure(self, 16)?;
                let limit =
                    |value: u64| if value == u64::MAX { "RLIM64_INFINITY".to_owned() } else { value.to_string() };
                braces(vec![piece.field("rlim_cur", 0, 8, limit), piece.field("rlim_max", 8, 8, limit)])
            }
            Shape::SocketAddress(size) => {
                let len = self.size(size)?.min(128);
                socket_address(&structure(self, len)?)?
            }
            Shape::Sigaction => {
                let piece = structure(self, 32)?;
                let handler = |value| match value {
                    0 => "SIG_DFL".to_owned(),
                    1 => "SIG_IGN".to_owned(),
                    other => format!("{other:#x}"),
                };
                let flags = |value| names::bits(SA, value);
                braces(vec![
                    piece.field("sa_handler", 0, 8, handler),
                    piece.field("sa_mask", 24, 8, signals),
                    piece.field("sa_flags", 8, 8, flags),
                ])
            }
            Shape::Signals => signals(structure(self, 8)?.number(0, 8)?),
            Shape::Word => format!("[{}]", structure(self, 4)?.number(0, 4)? as i32),
            Shape::Words(count) => {
                let piece = structure(self, 4 * count)?;
                let word =
                    |n| piece.number(4 * n, 4).map_or_else(|| "?".to_owned(), |value| (value as i32).to_string());
                format!("[{}]", (0..count as usize).map(word).collect::<Vec<_>>().join(", "))
            }
            Shape::WaitStatus => {
                let status = structure(self, 4)?.number(0, 4)? as i32;
                if libc::WIFEXITED(status) {
                    format!("[{{WIFEXITED(s) && WEXITSTATUS(s) == {}}}]", libc::WEXITSTATUS(status))
                } else if libc::WIFSIGNALED(status) {
                    let signal = crate::signal::name(libc::WTERMSIG(status));
                    format!("[{{WIFSIGNALED(s) && WTERMSIG(s) == {signal}}}]")
                } else {
                    format!("[{status:#x}]")
                }
            }
            Shape::EpollEvent => event(&structure(self, 12)?, 0),
            Shape::EpollEvents => {
                let count = u64::try_from(self.result?).ok()?;
                let shown = count.min(ELEMENTS);
                if shown == 0 {
                    return Some("[]".into());
                }
                let piece = structure(self, 12 * shown)?;
                list((0..shown as usize).map(|n| event(&piece, 12 * n)), count)
            }
            Shape::PollFds(arg_of_count) => {
                let count = self.args[arg_of_count];
                let shown = count.min(ELEMENTS);
                let before = Some(self.read(false, arg, addr, 8 * shown)).filter(|piece| !piece.is_unknown())?;
                let failed = self.failed();
                let after = if failed { None } else { Some(self.read(true, arg, addr, 8 * shown)) };
                let poll = |value| names::bits(POLL, value);
                let one = |n: usize| {
                    let fd = before.field("fd", 8 * n, 4, |fd| (fd as i32).to_string());
                    let mut fields = vec![fd, before.field("events", 8 * n + 4, 2, poll)];
                    fields.extend(after.as_ref().map(|after| after.field("revents", 8 * n + 6, 2, poll)));
                    format!("{{{}}}", fields.join(", "))
                };
                list((0..shown as usize).map(one), count)
            }
            Shape::Iovecs(arg_of_count) => {
                let count = self.args[arg_of_count];
                let shown = count.min(ELEMENTS);
                let vectors = Some(self.read(false, arg, addr, 16 * shown)).filter(|piece| !piece.is_unknown())?;
                let mut left = if is_out { u64::try_from(self.result?).ok()? } else { u64::MAX };
                let mut all = Vec::new();
                for n in 0..shown as usize {
                    let (base, len) = (vectors.number(16 * n, 8), vectors.number(16 * n + 8, 8));
                    let (Some(base), Some(len)) = (base, len) else {
                        all.push("?".to_owned());
                        continue;
                    };
                    let filled = len.min(left);
                    left -= filled;
                    let bytes = self.read(is_out, arg, base, filled.min(SHOWN as u64));
                    let what = text(&bytes.0, filled).unwrap_or_else(|| format!("{base:#x}"));
                    all.push(format!("{{iov_base={what}, iov_len={len}}}"));
                }
                list(all.into_iter(), count)
            }
        })
    }

    /// The memory that an argument of this shape says the call has written: addresses and bytes.
    pub fn written(&mut self, arg: usize, shape: Shape) -> Vec<(u64, u64)> {
        let addr = self.args[arg];
        if addr == 0 || self.failed() {
            return Vec::new();
        }
        let len = match shape {
            Shape::Bytes(size) | Shape::Opaque(size) | Shape::SocketAddress(size) => self.size(size).unwrap_or(0),
            Shape::Stat => 144,
            Shape::Timespec | Shape::Timeval | Shape::Rlimit => 16,
            Shape::Sigaction => 32,
            Shape::Signals => 8,
            Shape::Word | Shape::WaitStatus => 4,
            Shape::Words(count) => 4 * count,
            Shape::EpollEvent => 12,
            Shape::EpollEvents => {
                self.result.and_then(|count| u64::try_from(count).ok()).unwrap_or(0).saturating_mul(12)
            }
            // Of each, only what was found; not which descriptor it is, and what is waited for.
            Shape::PollFds(count) => {
                return (0..self.args[count].min(4096)).map(|number| (addr + 8 * number + 6, 2)).collect();
            }
            Shape::Iovecs(count) => {
                let count = self.args[count].min(1024);
                let vectors = self.read(false, arg, addr, 16 * count);
                let mut left = self.result.and_then(|result| u64::try_from(result).ok()).unwrap_or(0);
                let one = |n: usize| Some((vectors.number(16 * n, 8)?, vectors.number(16 * n + 8, 8)?));
                let pieces = (0..count as usize).filter_map(one).map(|(base, len)| {
                    let filled = len.min(left);
                    left -= filled;
                    (base, filled)
                });
                return pieces.filter(|(_, len)| *len > 0).collect();
            }
        };
        vec![(addr, len)]
    }
}

fn structure_at(context: &mut Context<'_>, is_out: bool, arg: usize, addr: u64, len: u64) -> Option<Piece> {
    debug_assert!(len <= MAX_STRUCTURE);
    Some(context.read(is_out, arg, addr, len)).filter(|piece| !piece.is_unknown())
}

fn list(elements: impl Iterator<Item = String>, count: u64) -> String {
    let mut elements: Vec<String> = elements.collect();
    if count > elements.len() as u64 {
        elements.push("...".into());
    }
    format!("[{}]", elements.join(", "))
}

/// Bytes as C writes them, of `len` in all: the known ones at the start; `?` behind them says that more are not known, and `...` that
/// more are not shown. None if none is known.
pub(super) fn text(bytes: &[Option<u8>], len: u64) -> Option<String> {
    let known: Vec<u8> = bytes.iter().map_while(|byte| *byte).take(SHOWN).collect();
    if known.is_empty() && len > 0 {
        return None;
    }
    let more = match known.len() {
        shown if shown as u64 == len => "",
        SHOWN => "...",
        _ => "?",
    };
    Some(format!("\"{}\"{more}", known.escape_ascii()))
}

fn file_mode(mode: u64) -> String {
    let kind = match mode as u32 & libc::S_IFMT {
        libc::S_IFREG => "S_IFREG|",
        libc::S_IFDIR => "S_IFDIR|",
        libc::S_IFLNK => "S_IFLNK|",
        libc::S_IFCHR => "S_IFCHR|",
        libc::S_IFBLK => "S_IFBLK|",
        libc::S_IFIFO => "S_IFIFO|",
        libc::S_IFSOCK => "S_IFSOCK|",
        _ => "",
    };
    format!("{kind}0{:o}", mode & 0o7777)
}

fn signals(set: u64) -> String {
    let named = |set: u64| {
        let of = (1..=64).filter(|number| set >> (number - 1) & 1 == 1);
        of.map(crate::signal::name).collect::<Vec<_>>().join(" ")
    };
    if set.count_ones() > 32 { format!("~[{}]", named(!set)) } else { format!("[{}]", named(set)) }
}

fn event(piece: &Piece, at: usize) -> String {
    let events = piece.field("events", at, 4, |value| names::bits(EPOLL, value));
    format!("{{{events}, {}}}", piece.field("data", at + 4, 8, |value| format!("{value:#x}")))
}

fn socket_address(piece: &Piece) -> Option<String> {
    let family = piece.number(0, 2)?;
    let name = names::number(DOMAIN, family);
    let bytes =
        |from: usize, len: usize| -> Option<Vec<u8>> { piece.0.get(from..from + len)?.iter().copied().collect() };
    let port = bytes(2, 2).map_or_else(|| "?".to_owned(), |port| u16::from_be_bytes([port[0], port[1]]).to_string());
    let rest = match family as i32 {
        libc::AF_INET => {
            let address: Option<[u8; 4]> = bytes(4, 4).and_then(|bytes| bytes.try_into().ok());
            let address = address.map_or_else(|| "?".to_owned(), |bytes| format!("\"{}\"", Ipv4Addr::from(bytes)));
            format!(", sin_port=htons({port}), sin_addr=inet_addr({address})")
        }
        libc::AF_INET6 => {
            let address: Option<[u8; 16]> = bytes(8, 16).and_then(|bytes| bytes.try_into().ok());
            let address = address.map_or_else(|| "?".to_owned(), |bytes| format!("\"{}\"", Ipv6Addr::from(bytes)));
            format!(", sin6_port=htons({port}), sin6_addr={address}")
        }
        libc::AF_UNIX => {
            let path: Vec<u8> = piece.0[2..].iter().map_while(|byte| *byte).collect();
            let (mark, path) = match path.split_first() {
                Some((0, name)) => ("@", name.to_vec()),
                _ => ("", path.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()),
            };
            format!(", sun_path={mark}\"{}\"", path.escape_ascii())
        }
        _ => String::new(),
    };
    Some(format!("{{sa_family={name}{rest}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(bytes: &[u8]) -> Vec<Option<u8>> {
        bytes.iter().copied().map(Some).collect()
    }

    #[test]
    fn texts_say_what_is_missing() {
        assert_eq!(text(&known(b"hi\n"), 3).as_deref(), Some("\"hi\\n\""));
        assert_eq!(text(&[known(b"hi"), vec![None]].concat(), 3).as_deref(), Some("\"hi\"?"));
        assert_eq!(text(&known(&[b'a'; SHOWN]), 99), Some(format!("\"{}\"...", "a".repeat(SHOWN))));
        assert_eq!(text(&[None; 3], 3), None);
        assert_eq!(text(&[], 0).as_deref(), Some("\"\""));
    }

    #[test]
    fn addresses_of_sockets() {
        let shown = |bytes: &[u8]| socket_address(&Piece(known(bytes))).unwrap();
        assert_eq!(
            shown(&[2, 0, 0x1f, 0x90, 127, 0, 0, 1, 0, 0]),
            "{sa_family=AF_INET, sin_port=htons(8080), sin_addr=inet_addr(\"127.0.0.1\")}"
        );
        assert_eq!(shown(b"\x01\0/run/x\0\0"), "{sa_family=AF_UNIX, sun_path=\"/run/x\"}");
        assert_eq!(shown(b"\x01\0\0name"), "{sa_family=AF_UNIX, sun_path=@\"name\"}");
    }

    #[test]
    fn sets_of_signals() {
        assert_eq!(signals(1 << 1 | 1 << 14), "[SIGINT SIGTERM]");
        assert_eq!(signals(!0), "~[]");
        assert_eq!(file_mode(0o100_644), "S_IFREG|0644");
    }
}
