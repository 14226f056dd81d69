//! Stopping a cursor's run from another thread.

use crate::error::Result;
use crate::process::Process;
use bugnet_format::control::{Request, send};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared between a cursor and who may interrupt it.
#[derive(Debug, Default)]
struct Shared {
    asked: AtomicBool,
    /// To the replay process that runs at present.
    socket: Mutex<Option<UnixStream>>,
}

/// By which a cursor's run can be interrupted from another thread.
#[derive(Clone, Debug, Default)]
pub struct Interrupter(Arc<Shared>);

impl Interrupter {
    /// Makes the present run stop where it is; the next one, if there is none.
    pub fn interrupt(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        if let Some(socket) = &mut *self.0.socket.lock().unwrap_or_else(PoisonError::into_inner) {
            // A process that is gone runs no more.
            let _ = send(socket, &Request::Interrupt);
        }
    }

    /// Another process runs from here on.
    pub(super) fn follow(&self, process: &Process) -> Result<()> {
        let socket = process.socket()?;
        *self.0.socket.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
        Ok(())
    }

    /// Whether somebody has asked since this was last asked.
    pub(super) fn take(&self) -> bool {
        self.0.asked.swap(false, Ordering::SeqCst)
    }
}
