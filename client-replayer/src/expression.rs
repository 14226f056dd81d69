//! Conditions of breakpoints, as gdb writes them for whoever executes the program: its agent expressions, which are code for a machine with a stack
//! (GDB's manual, "The GDB Agent Expression Mechanism").

use bugnet_dr::access::RegisterValues;
use bugnet_dr::ir::Gpr;

/// Most numbers on the stack, and most instructions that are executed.
const DEEPEST: usize = 100;
const LONGEST: usize = 10_000;
/// gdb's order of the general purpose registers, by the processor's numbers; the next one is the instruction pointer.
const ORDER: [u8; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// What an expression is about.
pub struct Subject<'a, R> {
    pub regs: &'a R,
    pub pc: u64,
    /// So many bytes from an address on, little-endian; none if they are not known.
    pub memory: &'a mut dyn FnMut(u64, u64) -> Option<u64>,
}

/// The stack, and the code that is left.
struct Machine<'a> {
    code: &'a [u8],
    at: usize,
    stack: Vec<u64>,
}

impl Machine<'_> {
    /// The next bytes of the code as a number, the highest first.
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let found = self.code.get(self.at..self.at + bytes)?;
        self.at += bytes;
        Some(found.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn push(&mut self, number: u64) -> Option<()> {
        (self.stack.len() < DEEPEST).then(|| self.stack.push(number))
    }

    fn change(&mut self, with: impl FnOnce(u64) -> u64) -> Option<()> {
        let top = self.stack.pop()?;
        self.push(with(top))
    }

    fn join(&mut self, with: impl FnOnce(u64, u64) -> Option<u64>) -> Option<()> {
        let (b, a) = (self.stack.pop()?, self.stack.pop()?);
        self.push(with(a, b)?)
    }
}

/// Whether an expression is not zero; none where that cannot be told.
pub fn holds<R: RegisterValues>(code: &[u8], subject: &mut Subject<'_, R>) -> Option<bool> {
    let mut machine = Machine { code, at: 0, stack: Vec::new() };
    let signed = u64::cast_signed;
    for _ in 0..LONGEST {
        match machine.number(1)? {
            0x02 => machine.join(|a, b| Some(a.wrapping_add(b)))?,
            0x03 => machine.join(|a, b| Some(a.wrapping_sub(b)))?,
            0x04 => machine.join(|a, b| Some(a.wrapping_mul(b)))?,
            0x05 => machine.join(|a, b| signed(a).checked_div(signed(b)).map(i64::cast_unsigned))?,
            0x06 => machine.join(u64::checked_div)?,
            0x07 => machine.join(|a, b| signed(a).checked_rem(signed(b)).map(i64::cast_unsigned))?,
            0x08 => machine.join(u64::checked_rem)?,
            0x09 => machine.join(|a, b| a.checked_shl(b.try_into().ok()?))?,
            0x0a => machine.join(|a, b| signed(a).checked_shr(b.try_into().ok()?).map(i64::cast_unsigned))?,
            0x0b => machine.join(|a, b| a.checked_shr(b.try_into().ok()?))?,
            0x0e => machine.change(|top| u64::from(top == 0))?,
            0x0f => machine.join(|a, b| Some(a & b))?,
            0x10 => machine.join(|a, b| Some(a | b))?,
            0x11 => machine.join(|a, b| Some(a ^ b))?,
            0x12 => machine.change(|top| !top)?,
            0x13 => machine.join(|a, b| Some(u64::from(a == b)))?,
            0x14 => machine.join(|a, b| Some(u64::from(signed(a) < signed(b))))?,
            0x15 => machine.join(|a, b| Some(u64::from(a < b)))?,
            op @ (0x16 | 0x2a) => {
                let cut = 64_u32.checked_sub(machine.number(1)? as u32).filter(|cut| *cut < 64)?;
                machine.change(|top| match op {
                    0x16 => (signed(top << cut) >> cut).cast_unsigned(),
                    _ => top << cut >> cut,
                })?;
            }
            op @ 0x17..=0x1a => {
                let at = machine.stack.pop()?;
                let found = (subject.memory)(at, 1 << (op - 0x17))?;
                machine.push(found)?;
            }
            op @ (0x20 | 0x21) => {
                let to = machine.number(2)? as usize;
                if op == 0x21 || machine.stack.pop()? != 0 {
                    machine.at = to;
                }
            }
            op @ 0x22..=0x25 => {
                let number = machine.number(1 << (op - 0x22))?;
                machine.push(number)?;
            }
            0x26 => {
                let number = machine.number(2)? as usize;
                let value = match ORDER.get(number) {
                    Some(reg) => subject.regs.gpr(Gpr(*reg)),
                    None if number == ORDER.len() => subject.pc,
                    None => return None,
                };
                machine.push(value)?;
            }
            0x27 => return machine.stack.pop().map(|top| top != 0),
            0x28 => {
                let top = *machine.stack.last()?;
                machine.push(top)?;
            }
            0x29 => drop(machine.stack.pop()?),
            0x2b => {
                let top = machine.stack.len().checked_sub(2)?;
                machine.stack.swap(top, top + 1);
            }
            0x32 => {
                let below = machine.number(1)? as usize;
                let picked = *machine.stack.iter().nth_back(below)?;
                machine.push(picked)?;
            }
            0x33 => {
                let from = machine.stack.len().checked_sub(3)?;
                machine.stack[from..].rotate_right(1);
            }
            // What collects, prints or computes with fractions.
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use bugnet_dr::ir::Segment;

    struct Regs;

    impl RegisterValues for Regs {
        fn gpr(&self, reg: Gpr) -> u64 {
            100 + u64::from(reg.0)
        }

        fn vector(&self, _: usize) -> [u8; 32] {
            [0; 32]
        }

        fn segment_base(&self, _: Segment) -> u64 {
            0
        }
    }

    fn told(code: &[u8]) -> Option<bool> {
        let mut memory = |at: u64, len: u64| (at < 0x1000).then_some(at + len);
        holds(code, &mut Subject { regs: &Regs, pc: 0x400, memory: &mut memory })
    }

    #[test]
    fn expressions() {
        // rbp (6 for gdb, 5 for the processor) is 105; memory at 105 - 4 has 101 + 4.
        assert_eq!(told(&[0x26, 0, 6, 0x22, 4, 0x03, 0x19, 0x22, 105, 0x13, 0x27]), Some(true));
        // -1 < 1, signed; as numbers of 32 bits; and not as numbers without a sign.
        let minus = [0x24, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(told(&[&minus[..], &[0x16, 32, 0x22, 1, 0x14, 0x27]].concat()), Some(true));
        assert_eq!(told(&[&minus[..], &[0x2a, 32, 0x22, 1, 0x15, 0x27]].concat()), Some(false));
        // `a && b` jumps.
        assert_eq!(told(&[0x22, 0, 0x20, 0, 9, 0x22, 0, 0x27, 0, 0x22, 7, 0x27]), Some(false));
        assert_eq!(told(&[0x22, 1, 0x20, 0, 9, 0x22, 0, 0x27, 0, 0x22, 7, 0x27]), Some(true));
        // The instruction pointer; duplicates, swaps and picks.
        assert_eq!(told(&[0x26, 0, 16, 0x23, 4, 0, 0x13, 0x27]), Some(true));
        assert_eq!(told(&[0x22, 1, 0x22, 0, 0x2b, 0x27]), Some(true));
        assert_eq!(told(&[0x22, 5, 0x22, 0, 0x32, 1, 0x27]), Some(true));
    }

    #[test]
    fn what_cannot_be_told() {
        // Unknown memory, division by zero, an endless loop, too few numbers, no end, a fraction, a register that is none.
        for code in [
            &[0x23, 0x10, 0, 0x17, 0x27][..],
            &[0x22, 1, 0x22, 0, 0x06, 0x27],
            &[0x21, 0, 0],
            &[0x02, 0x27],
            &[0x22, 1],
            &[0x1b, 0x27],
            &[0x26, 0, 40, 0x27],
            &[],
        ] {
            assert_eq!(told(code), None, "{code:x?}");
        }
    }
}
