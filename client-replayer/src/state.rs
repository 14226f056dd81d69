//! The one [`Engine`] of the process, and how it begins.

use crate::block;
use crate::engine::Engine;
use crate::fs_base::Guard;
use crate::loaded::Loaded;
use crate::signal;
use crate::stub::{Handlers, Stub};
use bugnet_dr::events::Events;
use bugnet_dr::process::{self, main_module};
use bugnet_format::control::CONTROL_FD;
use std::fs::File;
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Bytes of the window, as the replay host lays it out.
const WINDOW_SIZE: u64 = 1 << 35;
/// From the host's entry point to its gate.
const GATE: u64 = 2;

static ENGINE: AtomicPtr<Engine> = AtomicPtr::new(std::ptr::null_mut());

/// The engine. It exists from [`start`] on and as long as the process.
///
/// # Safety
/// Only from DynamoRIO's events and clean calls of the one thread, each of which calls this once: they do not nest,
/// since the client's own code neither runs in the code cache nor raises signals that are handed to it.
pub unsafe fn engine() -> &'static mut Engine {
    // SAFETY: `start` stores a leaked allocation before it registers any event; exclusive by the caller's promise.
    unsafe { &mut *ENGINE.load(Ordering::Relaxed) }
}

/// Ends the process with a message on standard error, without unwinding or destructors.
pub fn die(message: &str) -> ! {
    let text = format!("bugnet-replayer: {message}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    process::abort(125)
}

/// Address of the host program's gate, the instruction at which the client gets control.
fn find_gate() -> u64 {
    main_module().map_or_else(|| die("the replay host is not mapped"), |host| host.entry + GATE)
}

const HANDLERS: Handlers = Handlers { light: on_light, clean: on_event };

/// Called from the code cache, by way of the clean call.
unsafe extern "C" fn on_event() {
    // Not dropped: control goes back to the code cache from there.
    std::mem::forget(Guard::new());
    // SAFETY: a clean call of the only thread.
    let engine = unsafe { engine() };
    engine.event().go_on();
}

/// Called from the code cache, with the registers saved; returns where to go on.
unsafe extern "C" fn on_light() -> u64 {
    let _guard = Guard::new();
    // SAFETY: called from the code cache, like a clean call.
    let engine = unsafe { engine() };
    engine.stub.take_over();
    let target = engine.called();
    engine.stub.hand_over();
    target
}

/// Sets up the replay and registers the events.
pub fn start(window: u64) -> Result<(), String> {
    // The process cannot find out later.
    bugnet_dr::fs_base::can_be_set();
    let package = Loaded::first()?;
    // SAFETY: the descriptor is inherited by contract, and nobody else in the process owns it.
    let control = unsafe { File::from_raw_fd(CONTROL_FD) };
    let window = window..window + WINDOW_SIZE;
    let engine = Engine::new(package, control, window, find_gate(), Stub::new(HANDLERS)?);
    ENGINE.store(Box::into_raw(Box::new(engine)), Ordering::Relaxed);
    let (block, block_deleted) = (Some(block::on_block as _), Some(block::on_deleted as _));
    let events = Events { block, block_deleted, signal: Some(signal::on_signal), ..Events::default() };
    // SAFETY: in the client's entry.
    unsafe { events.register() };
    Ok(())
}
