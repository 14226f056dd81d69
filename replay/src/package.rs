//! What a replay process is handed: written once, and read where it lies.

use crate::error::{ReplayError, Result};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};
use std::os::fd::OwnedFd;

/// More bytes than this do not have to be in memory.
const IN_MEMORY: u64 = 256 << 20;

/// A package, which nobody changes any more.
pub(crate) struct Package(OwnedFd);

impl Package {
    /// One that comes in parts.
    pub fn of(parts: &[&[u8]]) -> Result<Self> {
        let write = || {
            let mut writer = PackageWriter::new(0)?;
            parts.iter().try_for_each(|part| writer.write_all(part))?;
            writer.finish()
        };
        write().map_err(ReplayError::system("hand the interval to the replay process"))
    }

    /// The file that holds it.
    pub fn into_file(self) -> OwnedFd {
        self.0
    }
}

/// A package that is being written.
pub(crate) struct PackageWriter {
    file: BufWriter<File>,
    in_memory: bool,
}

impl PackageWriter {
    /// One of about so many bytes: in memory if it is small, else in a temporary file without a name.
    ///
    /// # Errors
    /// There is no room for either.
    pub fn new(bytes: u64) -> io::Result<Self> {
        let in_memory = bytes <= IN_MEMORY;
        let file = if in_memory {
            memfd_create("bugnet-package", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?.into()
        } else {
            tempfile::tempfile()?
        };
        Ok(Self { file: BufWriter::new(file), in_memory })
    }

    /// All is written.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(self) -> io::Result<Package> {
        let mut file = self.file.into_inner()?;
        if self.in_memory {
            let seals =
                SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_SEAL;
            fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        }
        file.rewind()?;
        Ok(Package(file.into()))
    }
}

impl Write for PackageWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_package_is_what_was_written_wherever_it_lies() {
        for bytes in [0, IN_MEMORY + 1] {
            let mut writer = PackageWriter::new(bytes).unwrap();
            let written: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
            written.chunks(777).for_each(|part| writer.write_all(part).unwrap());
            let mut read = Vec::new();
            File::from(writer.finish().unwrap().into_file()).read_to_end(&mut read).unwrap();
            assert!(read == written);
        }
    }
}
