//! The one [`Replay`] of the process, and how it begins.

use crate::replay::Replay;
use crate::signal;
use crate::stub::Stub;
use crate::{block, merged};
use bugnet_dr::sys;
use bugnet_format::control::{CONTROL_FD, PACKAGE_FD};
use bugnet_format::merged::MERGED_MAGIC;
use rustix::fd::BorrowedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::File;
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Bytes of the window, as the replay host lays it out.
const WINDOW_SIZE: u64 = 1 << 40;
/// From the host's entry point to its gate.
const GATE: u64 = 2;
/// Largest package that is accepted.
const MAX_PACKAGE: u64 = 1 << 40;

static REPLAY: AtomicPtr<Replay> = AtomicPtr::new(std::ptr::null_mut());

/// The replay. It exists from [`start`] on and as long as the process.
///
/// # Safety
/// Only from DynamoRIO's events and clean calls of the one thread, each of which calls this once: they do not nest,
/// since the client's own code neither runs in the code cache nor raises signals that are handed to it.
pub unsafe fn replay() -> &'static mut Replay {
    // SAFETY: `start` stores a leaked allocation before it registers any event; exclusive by the caller's promise.
    unsafe { &mut *REPLAY.load(Ordering::Relaxed) }
}

/// Ends the process with a message on standard error, without unwinding or destructors.
pub fn die(message: &str) -> ! {
    let text = format!("bugnet-replayer: {message}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    // SAFETY: ends the process, from any state.
    unsafe { sys::dr_abort_with_code(125) };
    std::process::abort()
}

/// Address of the host program's gate, the instruction at which the client gets control.
fn find_gate() -> u64 {
    // SAFETY: the main module is the host program, mapped; its data is freed once, after the last use.
    unsafe {
        let module = sys::dr_get_main_module();
        let entry = (*module).entry_point as u64;
        sys::dr_free_module_data(module);
        entry + GATE
    }
}

/// Maps the package where it lies.
fn map_package() -> Result<&'static [u8], String> {
    // SAFETY: the descriptor is inherited by contract and stays open; a wrong one makes the calls fail.
    let fd = unsafe { BorrowedFd::borrow_raw(PACKAGE_FD) };
    let failed = |e| format!("cannot map the package, descriptor {PACKAGE_FD}: {e}");
    let size = u64::try_from(rustix::fs::fstat(fd).map_err(failed)?.st_size).unwrap_or(0);
    if size == 0 || size > MAX_PACKAGE {
        return Err(format!("the package, descriptor {PACKAGE_FD}, has {size} bytes"));
    }
    // SAFETY: a new private mapping at a place of the kernel's choice, never unmapped. Whoever starts the replay process
    // seals the package: nobody changes or truncates it under us.
    unsafe {
        let at =
            mmap(std::ptr::null_mut(), size as usize, ProtFlags::READ, MapFlags::PRIVATE, fd, 0).map_err(failed)?;
        Ok(std::slice::from_raw_parts(at.cast(), size as usize))
    }
}

/// Sets up the replay and registers the events.
pub fn start(window: u64) -> Result<(), String> {
    let package = map_package()?;
    // SAFETY: the descriptor is inherited by contract, and nobody else in the process owns it.
    let control = unsafe { File::from_raw_fd(CONTROL_FD) };
    let window = window..window + WINDOW_SIZE;
    if package.starts_with(&MERGED_MAGIC) {
        return merged::state::start(package, control, window, find_gate());
    }
    let replay = Replay::new(package, control, window, find_gate(), Stub::new()?);
    REPLAY.store(Box::into_raw(Box::new(replay)), Ordering::Relaxed);
    // SAFETY: the functions have the signatures that DynamoRIO expects, and last as long as the process.
    unsafe {
        sys::dr_register_bb_event(Some(block::on_block));
        sys::dr_register_delete_event(Some(block::on_deleted));
        sys::dr_register_signal_event(Some(signal::on_signal));
    }
    Ok(())
}
