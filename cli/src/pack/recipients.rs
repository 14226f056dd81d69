//! For whom a packed file is encrypted.

use crate::failure::Failure;
use age::Recipient;
use age::ssh::ParseRecipientKeyError;
use std::fs::File;
use std::io::Read;

/// Most bytes of a file with recipients.
const MAX_FILE: u64 = 1 << 20;

/// Somebody.
pub type AnyRecipient = Box<dyn Recipient>;

/// The recipients that the user names: each is one, or a file of them, one a line.
pub fn recipients(given: &[String]) -> Result<Vec<AnyRecipient>, Failure> {
    let mut all = Vec::new();
    for text in given {
        if text.starts_with("age1") || text.starts_with("ssh-") {
            all.push(parse(text).map_err(|why| Failure::Usage(format!("--encrypt-to {text}: {why}")))?);
            continue;
        }
        let mut lines = String::new();
        let read = File::open(text).and_then(|file| file.take(MAX_FILE).read_to_string(&mut lines));
        read.map_err(|error| {
            let what = "is no recipient (age1..., ssh-ed25519 ..., ssh-rsa ...) and no file of them that can be read";
            Failure::Usage(format!("--encrypt-to {text}: it {what}: {error}"))
        })?;
        let before = all.len();
        for (number, line) in lines.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                let fail = |why| Failure::Usage(format!("--encrypt-to {text}: line {}: {why}", number + 1));
                all.push(parse(line).map_err(fail)?);
            }
        }
        if all.len() == before {
            return Err(Failure::Usage(format!("--encrypt-to {text}: the file holds no recipient")));
        }
    }
    Ok(all)
}

fn parse(text: &str) -> Result<AnyRecipient, String> {
    if text.starts_with("ssh-") {
        let recipient: Result<age::ssh::Recipient, _> = text.parse();
        return recipient.map(|recipient| Box::new(recipient) as AnyRecipient).map_err(|error| match error {
            ParseRecipientKeyError::Invalid(why) => format!("no public key of ssh: {why}"),
            ParseRecipientKeyError::RsaModulusTooSmall => "an RSA key below 2048 bits is too weak".to_owned(),
            ParseRecipientKeyError::RsaModulusTooLarge => {
                "an RSA key of more than 4096 bits is not supported".to_owned()
            }
            _ => "age does not support this kind of key; it does ssh-ed25519 and ssh-rsa".to_owned(),
        });
    }
    let recipient: Result<age::x25519::Recipient, _> = text.parse();
    recipient.map(|recipient| Box::new(recipient) as AnyRecipient).map_err(|why| format!("no recipient of age: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SSH: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsKLqeplhpW+uObz5dvMgjz1OxfM/XXUB+VHtZ6isGN alice@host";

    #[test]
    fn who_may_be_named() {
        let count = |given: &[&str]| {
            let given: Vec<_> = given.iter().map(|text| (*text).to_owned()).collect();
            recipients(&given).map(|all| all.len()).map_err(|error| error.to_string())
        };
        let age = age::x25519::Identity::generate().to_public().to_string();
        assert_eq!(count(&[]), Ok(0));
        assert_eq!(count(&[&age, SSH]), Ok(2));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all");
        std::fs::write(&path, format!("# the team\n{age}\n\n{SSH}\n")).unwrap();
        assert_eq!(count(&[path.to_str().unwrap(), &age]), Ok(3));
        std::fs::write(&path, format!("{age}\nbob\n")).unwrap();
        assert!(count(&[path.to_str().unwrap()]).unwrap_err().contains("line 2"));
        std::fs::write(&path, "# nobody\n").unwrap();
        assert!(count(&[path.to_str().unwrap()]).unwrap_err().contains("no recipient"));
        for wrong in ["age1xyz", "ssh-ed25519 AAAA", "ssh-dss AAAA", "/nonexistent/file"] {
            assert!(count(&[wrong]).unwrap_err().contains(wrong));
        }
    }
}
