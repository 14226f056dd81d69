//! Packed files that are encrypted, as the `age` tool does it: read in place, a piece at a time, and decrypted in memory only.

use crate::failure::Failure;
use age::stream::StreamReader;
use age::{DecryptError, Decryptor, Identity, IdentityFile};
use bugnet_format::FormatError;
use bugnet_format::pack::ReadAt;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, Error, ErrorKind, Read, Result, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How an encrypted file begins.
const MAGIC: &[u8] = b"age-encryption.org/";
/// Most bytes of a file with identities.
const MAX_IDENTITY: u64 = 1 << 20;

/// Whether a file that begins so is encrypted.
pub fn is_encrypted(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// An encrypted file, opened with an identity that fits.
pub struct Decrypted {
    reader: Mutex<StreamReader<BufReader<File>>>,
    size: u64,
}

impl ReadAt for Decrypted {
    fn size(&self) -> Result<u64> {
        Ok(self.size)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if offset >= self.size {
            return Ok(0);
        }
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.seek(SeekFrom::Start(offset)).and_then(|_| reader.read(buffer)).map_err(damage)
    }
}

/// What does not decrypt was altered or cut off.
fn damage(error: Error) -> Error {
    match error.raw_os_error() {
        Some(_) => error,
        None => Error::new(ErrorKind::InvalidData, format!("it does not decrypt: {error}")),
    }
}

/// Opens an encrypted file with one of the identities in `files`; without any, with those that people usually have.
pub fn decrypt(path: &Path, file: File, files: &[PathBuf]) -> std::result::Result<Decrypted, Failure> {
    let damaged = |why: &str| FormatError::damaged(path, 0, why);
    let refused = |error: Error| Failure::from(FormatError::io(path)(error));
    let mut identities = Identities::default();
    let usual = files.is_empty();
    let files = if usual { usual_files(|name| std::env::var_os(name)) } else { files.to_vec() };
    for file in files {
        match read_identities(&file) {
            Ok(all) => identities.all.extend(all),
            // Of those that nobody asked for, some are not there.
            Err(why) if !usual => return Err(Failure::Identity { path: file, why }),
            Err(_) if !file.exists() => continue,
            Err(why) => identities.unusable.push(format!("{} {why}", file.display())),
        }
        identities.tried.push(file);
    }
    let decryptor = Decryptor::new_buffered(BufReader::new(file)).map_err(|error| match error {
        DecryptError::Io(error) if error.raw_os_error().is_some() => refused(error),
        error => damaged(&format!("its age header cannot be read: {error}")).into(),
    })?;
    let mut reader =
        decryptor.decrypt(identities.all.iter().map(|identity| &**identity as &dyn Identity)).map_err(|error| {
            match error {
                DecryptError::NoMatchingKeys => Failure::NoIdentity {
                    path: path.to_owned(),
                    tried: identities.tried,
                    unusable: identities.unusable,
                },
                DecryptError::Io(error) if error.raw_os_error().is_some() => refused(error),
                error => damaged(&error.to_string()).into(),
            }
        })?;
    let size = reader.seek(SeekFrom::End(0)).map_err(damage).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => damaged("the file ends too early: it was not copied or written to its end").into(),
        _ => refused(error),
    })?;
    Ok(Decrypted { reader: Mutex::new(reader), size })
}

#[derive(Default)]
struct Identities {
    all: Vec<Box<dyn Identity + Send + Sync>>,
    tried: Vec<PathBuf>,
    unusable: Vec<String>,
}

/// Where identities usually are: `$BUGNET_IDENTITY` alone if it is set.
fn usual_files(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(own) = set("BUGNET_IDENTITY") {
        return vec![own];
    }
    let home = set("HOME");
    let config = set("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let age = config.map(|config| config.join("age/keys.txt"));
    age.into_iter().chain(home.map(|home| home.join(".ssh/id_ed25519"))).collect()
}

/// The identities in a file: keys of age, or one private key of ssh. What is wrong with it otherwise: a sentence that goes on behind
/// the file's name.
fn read_identities(path: &Path) -> std::result::Result<Vec<Box<dyn Identity + Send + Sync>>, String> {
    let cannot = |error: Error| format!("cannot be read: {error}");
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(MAX_IDENTITY).read_to_string(&mut text)).map_err(cannot)?;
    if text.starts_with("-----BEGIN") {
        let key = age::ssh::Identity::from_buffer(text.as_bytes(), None);
        return match key.map_err(|_| "is no private key of ssh that bugnet can read")? {
            key @ age::ssh::Identity::Unencrypted(_) => Ok(vec![Box::new(key)]),
            age::ssh::Identity::Encrypted(_) => Err(
                "is protected by a passphrase, which bugnet does not ask for; use a copy without one (ssh-keygen -p)"
                    .to_owned(),
            ),
            age::ssh::Identity::Unsupported(_) => {
                Err("is a private key of a kind that age does not support".to_owned())
            }
        };
    }
    if is_encrypted(text.as_bytes()) {
        return Err("is encrypted itself; decrypt it first (age -d)".to_owned());
    }
    let file = IdentityFile::from_buffer(text.as_bytes()).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => {
            "is no file with identities of age (AGE-SECRET-KEY-1...) or private key of ssh".to_owned()
        }
        _ => cannot(error),
    })?;
    let identities = file.into_identities().map_err(|error| format!("cannot be used: {error}"))?;
    if identities.is_empty() { Err("holds no identity".to_owned()) } else { Ok(identities) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use age::secrecy::ExposeSecret;
    use std::io::Write;

    fn files(variables: &[(&str, &str)]) -> Vec<PathBuf> {
        usual_files(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn where_identities_are() {
        let ssh = PathBuf::from("/h/.ssh/id_ed25519");
        assert_eq!(files(&[("HOME", "/h")]), ["/h/.config/age/keys.txt".into(), ssh.clone()]);
        assert_eq!(files(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")]), ["/c/age/keys.txt".into(), ssh]);
        assert_eq!(files(&[("HOME", "/h"), ("BUGNET_IDENTITY", "/k")]), [PathBuf::from("/k")]);
        assert!(files(&[]).is_empty());
    }

    #[test]
    fn any_place_can_be_read() {
        let key = age::x25519::Identity::generate();
        let folder = tempfile::tempdir().unwrap();
        let [keys, path] = ["keys", "file"].map(|name| folder.path().join(name));
        std::fs::write(&keys, key.to_string().expose_secret()).unwrap();
        // With and without a last piece that is not full.
        for len in [0usize, 1, 1000, 64 << 10, 128 << 10, 200_000] {
            let plain: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
            let public = key.to_public();
            let recipients = std::iter::once(&public as &dyn age::Recipient);
            let encryptor = age::Encryptor::with_recipients(recipients).unwrap();
            let mut out = encryptor.wrap_output(File::create(&path).unwrap()).unwrap();
            out.write_all(&plain).unwrap();
            out.finish().unwrap();
            let file = decrypt(&path, File::open(&path).unwrap(), std::slice::from_ref(&keys)).unwrap();
            assert_eq!(file.size().unwrap(), len as u64);
            let mut place = 3usize;
            for _ in 0..200 {
                place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (place >> 33) % (len + 1);
                let mut piece = vec![0; 1 + (place >> 50) % 5000];
                let read = file.read_at(&mut piece, at as u64).unwrap();
                assert!(read > 0 || at == len);
                assert_eq!(piece[..read], plain[at..at + read], "{len} bytes, at {at}");
            }
        }
        // Cut off, it does not open.
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let error = decrypt(&path, File::open(&path).unwrap(), &[keys]).map(drop).unwrap_err();
        assert!(error.to_string().contains("ends too early"), "{error}");
    }
}
