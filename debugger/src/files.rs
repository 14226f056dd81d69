//! The files that gdb reads from the machine of the program: ELF files, what holds their debug information, `/proc/PID/maps`.

use crate::debuggee::{Debuggee, piece};
use crate::image::{Image, Loader};
use bugnet_format::folder::Module;
use bugnet_format::source::Source;
use bugnet_format::types::ProcessId;
use bugnet_replay::ReplayError;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::module_files;
use gdbstub::target::ext::host_io::{
    FsKind, HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat, HostIoFstatOps, HostIoOpen,
    HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread, HostIoPreadOps, HostIoReadlink, HostIoReadlinkOps,
    HostIoResult, HostIoSetfs, HostIoSetfsOps, HostIoStat,
};
use std::collections::BTreeMap;

/// Most files that are open at a time.
const MOST_OPEN: usize = 256;

/// What there is, and what is open.
#[derive(Debug)]
pub struct Files {
    log: Source,
    modules: Vec<Module>,
    /// By path.
    made: BTreeMap<String, Vec<u8>>,
    /// The path of the list of what is mapped.
    maps: String,
    loader: Option<Loader>,
    open: BTreeMap<u32, Vec<u8>>,
}

impl Files {
    /// Of a process.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn new(log: &Log, pid: ProcessId, image: &Image) -> Result<Self, ReplayError> {
        let proc = |file: &str| format!("/proc/{}/{file}", pid.pid.0);
        let info = log.processes()?.into_iter().find(|(id, _)| *id == pid).and_then(|(_, info)| info);
        let args = info.map_or_else(|| log.meta().args.clone(), |info| info.args);
        let cmdline = args.into_iter().flat_map(|arg| [arg.into_bytes(), vec![0]].concat()).collect();
        let made = [(proc("cmdline"), cmdline)];
        let (modules, loader) = (image.modules.clone(), image.loader.clone());
        Ok(Self {
            log: log.source().clone(),
            modules,
            made: made.into(),
            maps: proc("maps"),
            loader,
            open: BTreeMap::new(),
        })
    }

    /// A file of this path, as the program's machine had it.
    fn read(&self, path: &str) -> Option<Vec<u8>> {
        if let Some(made) = self.made.get(path) {
            return Some(made.clone());
        }
        let loader = self.loader.as_ref().filter(|loader| loader.asked == path);
        let path = loader.map_or(path, |loader| &loader.path);
        if let Some(module) = self.modules.iter().find(|module| module.path == path) {
            return module_files(&self.log, module).map(|files| files.main);
        }
        // What gdb looks for by build id: .../.build-id/12/3456.debug
        let (_, id) = path.rsplit_once("/.build-id/")?;
        let id = id.strip_suffix(".debug")?.replacen('/', "", 1);
        let files = |module: &Module| module_files(&self.log, module);
        match self.modules.iter().find(|module| module.build_id == id) {
            Some(module) => files(module)?.debug,
            // What several files share has an id of its own.
            None => {
                let mut shared = self.modules.iter().filter_map(files).filter_map(|files| files.shared);
                shared.find(|(shared, _)| *shared == id).map(|(_, bytes)| bytes)
            }
        }
    }
}

fn refused<E>(errno: HostIoErrno) -> HostIoError<E> {
    HostIoError::Errno(errno)
}

impl HostIo for Debuggee<'_> {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }

    fn support_readlink(&mut self) -> Option<HostIoReadlinkOps<'_, Self>> {
        Some(self)
    }

    fn support_setfs(&mut self) -> Option<HostIoSetfsOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Debuggee<'_> {
    fn open(&mut self, name: &[u8], flags: HostIoOpenFlags, _: HostIoOpenMode) -> HostIoResult<u32, Self> {
        if flags.intersects(HostIoOpenFlags::O_WRONLY | HostIoOpenFlags::O_RDWR | HostIoOpenFlags::O_CREAT) {
            return Err(refused(HostIoErrno::EROFS));
        }
        if self.files.open.len() >= MOST_OPEN {
            return Err(refused(HostIoErrno::EMFILE));
        }
        let name = String::from_utf8_lossy(name);
        let bytes = if *name == *self.files.maps {
            self.mappings().map_err(|_| refused(HostIoErrno::EUNKNOWN))?.to_string().into_bytes()
        } else {
            self.files.read(&name).ok_or(refused(HostIoErrno::ENOENT))?
        };
        let fd = self.files.open.keys().next_back().map_or(3, |last| last + 1);
        self.files.open.insert(fd, bytes);
        Ok(fd)
    }
}

impl HostIoClose for Debuggee<'_> {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        self.files.open.remove(&fd).map(drop).ok_or(refused(HostIoErrno::EBADF))
    }
}

impl HostIoPread for Debuggee<'_> {
    fn pread(&mut self, fd: u32, count: usize, offset: u64, buf: &mut [u8]) -> HostIoResult<usize, Self> {
        let bytes = self.files.open.get(&fd).ok_or(refused(HostIoErrno::EBADF))?;
        Ok(piece(bytes, offset, count, buf))
    }
}

impl HostIoFstat for Debuggee<'_> {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        let bytes = self.files.open.get(&fd).ok_or(refused(HostIoErrno::EBADF))?;
        let size = bytes.len() as u64;
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: fd,
            st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: size,
            st_blksize: 4096,
            st_blocks: size.div_ceil(512),
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
    }
}

/// There are no links: what a process had mapped is known by its real path.
impl HostIoReadlink for Debuggee<'_> {
    fn readlink(&mut self, _: &[u8], _: &mut [u8]) -> HostIoResult<usize, Self> {
        Err(refused(HostIoErrno::EINVAL))
    }
}

impl HostIoSetfs for Debuggee<'_> {
    fn setfs(&mut self, _: FsKind) -> HostIoResult<(), Self> {
        Ok(())
    }
}
