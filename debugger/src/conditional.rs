//! When breakpoints count: the conditions that gdb sends along with them, for the replay to tell without stopping each time.
//!
//! `gdbstub` passes over that part of the protocol: the connection says that it is understood, and takes it from the packets.

use std::collections::HashMap;

/// The conditions of breakpoints, of which one has to hold, by the breakpoint's kind and address. None for one that always counts.
#[derive(Debug, Default)]
pub struct Conditional(pub HashMap<(u8, u64), Vec<Vec<u8>>>);

/// Whether a packet, by its beginning, is one that sets a breakpoint.
pub fn sets(packet: &[u8]) -> bool {
    matches!(packet, [b'Z', b'0' | b'1', ..])
}

impl Conditional {
    /// Takes the conditions from a packet that sets a breakpoint: `Z0,ADDR,KIND;XLEN,CODE;XLEN,CODE...`, in which CODE is hexadecimal.
    pub fn take(&mut self, packet: &[u8]) {
        let Ok(packet) = std::str::from_utf8(packet) else { return };
        let Some((kind, addr, conditions)) = parsed(packet) else { return };
        match conditions {
            Some(conditions) if !conditions.is_empty() => self.0.insert((kind, addr), conditions),
            _ => self.0.remove(&(kind, addr)),
        };
    }
}

type Parsed = (u8, u64, Option<Vec<Vec<u8>>>);

fn parsed(packet: &str) -> Option<Parsed> {
    let mut parts = packet.strip_prefix('Z')?.split(';');
    let mut place = parts.next()?.split(',');
    let (kind, addr) = (place.next()?.parse().ok()?, u64::from_str_radix(place.next()?, 16).ok()?);
    let codes = parts.take_while(|part| part.starts_with('X')).map(|part| bytes(part.split_once(',')?.1));
    // One that is not understood may always hold.
    Some((kind, addr, codes.collect()))
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_come_with_breakpoints() {
        let mut conditional = Conditional::default();
        conditional.take(b"Z0,401136,1;X3,220127;X2,0027");
        assert_eq!(conditional.0[&(0, 0x40_1136)], [vec![0x22, 1, 0x27], vec![0, 0x27]]);
        // Set again, without any; and with some that cannot be read.
        conditional.take(b"Z1,401136,1;X1,27;cmds:0,X1,27");
        assert_eq!(conditional.0[&(1, 0x40_1136)], [vec![0x27]]);
        conditional.take(b"Z0,401136,1");
        conditional.take(b"Z1,401136,1;X1,2g");
        assert!(conditional.0.is_empty());
        assert!(sets(b"Z0,1,1") && sets(b"Z1,1,1") && !sets(b"Z2,1,1") && !sets(b"z0,1,1"));
    }
}
