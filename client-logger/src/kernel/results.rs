//! Results of system calls that are answered in the kernel's place.

/// A system call's result that stands for an error.
pub const fn error(number: i32) -> i64 {
    -(number as i64)
}
