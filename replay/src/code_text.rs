//! The code of a process as it is in the log, for whoever decodes it: also what was never executed, as far as that is known.

use crate::error::Result;
use crate::log::Log;
use crate::symbols::Symbolizer;
use bugnet_format::code::CodeStore;
use bugnet_format::types::{Addr, ProcessId};
use std::collections::HashMap;
use std::sync::Arc;

/// The code of a process: the newest version of each page that was executed, else the ELF file that is mapped there.
pub struct CodeText {
    store: Arc<CodeStore>,
    /// The newest version of each page, by its place in the store.
    pages: HashMap<Addr, usize>,
    symbols: Symbolizer,
}

impl CodeText {
    /// Of a process of the log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn new(log: &Log, pid: ProcessId) -> Result<Self> {
        let store = log.code(pid)?;
        let pages = store.pages.iter().enumerate().map(|(number, page)| (page.addr, number)).collect();
        Ok(Self { store, pages, symbols: Symbolizer::new(log, pid)? })
    }

    /// Up to `len` bytes from an address on, as far as they are known.
    #[must_use]
    pub fn read(&mut self, addr: u64, len: usize) -> Vec<u8> {
        let mut found: Vec<u8> = Vec::with_capacity(len);
        while found.len() < len {
            let Some(at) = addr.checked_add(found.len() as u64).map(Addr) else { break };
            let left = len - found.len();
            if let Some(number) = self.pages.get(&at.page()) {
                let bytes = &self.store.pages[*number].bytes[(at.0 - at.page().0) as usize..];
                found.extend_from_slice(&bytes[..left.min(bytes.len())]);
                continue;
            }
            let file = self.symbols.file_at(at);
            let Some(bytes) = file.and_then(|(image, address)| image.read_only(address, left)) else { break };
            found.extend_from_slice(&bytes);
        }
        found
    }
}
