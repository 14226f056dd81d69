//! What a signal handler finds of whom it has interrupted.

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Length of a `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;

/// Where a signal frame, at whose `ucontext` the stack pointer points, has the mask that the return restores.
pub const FRAME_MASK: u64 = 296;

/// Registers, by where the kernel's `ucontext` has them.
pub const RDI: usize = 104;
pub const RAX: usize = 144;
const RSP: usize = 160;
const RIP: usize = 168;
/// Those of a system call's arguments.
pub const ARGUMENTS: [usize; 6] = [RDI, 112, 136, 56, 40, 48];

/// A thread as a signal has interrupted it, and as it goes on behind the handler.
#[derive(Clone, Copy)]
pub struct Frame(*mut u8);

impl Frame {
    /// # Safety
    /// The kernel's pointer, in the signal's handler. Nobody else refers to the frame.
    pub unsafe fn new(context: *mut u8) -> Self {
        Self(context)
    }

    /// The word at an offset in `ucontext`.
    pub fn word(self, at: usize) -> u64 {
        // SAFETY: a register or another word of the frame, by the promise that was made for `new`.
        unsafe { self.0.add(at).cast::<u64>().read() }
    }

    /// Changes it.
    pub fn set(self, at: usize, value: u64) {
        // SAFETY: as for `word`.
        unsafe { self.0.add(at).cast::<u64>().write(value) }
    }

    /// The mask with which the thread goes on.
    pub fn mask(self) -> u64 {
        self.word(FRAME_MASK as usize)
    }

    /// Changes it.
    pub fn set_mask(self, mask: u64) {
        self.set(FRAME_MASK as usize, mask);
    }

    pub fn pc(self) -> u64 {
        self.word(RIP)
    }

    pub fn stack(self) -> u64 {
        self.word(RSP)
    }

    fn is_syscall(self, at: u64) -> bool {
        // SAFETY: code of DynamoRIO's, of ours or in the code cache neither begins nor ends where it is mapped.
        unsafe { (at as *const [u8; 2]).read_unaligned() == SYSCALL }
    }

    /// Whether a system call is to be made, or to be made again: the thread is at its instruction.
    pub fn is_at_call(self) -> bool {
        self.is_syscall(self.word(RIP))
    }

    /// Whether it has returned from one.
    pub fn is_behind_call(self) -> bool {
        self.is_syscall(self.word(RIP) - SYSCALL_BYTES)
    }

    /// Whether a signal has ended it.
    pub fn is_behind_interrupted_call(self) -> bool {
        self.word(RAX).cast_signed() == -i64::from(libc::EINTR) && self.is_behind_call()
    }

    /// The system call from which the thread has returned is made again.
    pub fn repeat_call(self, number: i64) {
        self.set(RAX, number as u64);
        self.set(RIP, self.word(RIP) - SYSCALL_BYTES);
    }

    /// That at which the thread is is over, with this result.
    pub fn leave_call(self, result: i64) {
        self.set(RAX, result as u64);
        self.set(RIP, self.word(RIP) + SYSCALL_BYTES);
    }
}
