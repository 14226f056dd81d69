//! `bugnet pack` and `bugnet unpack`, and the commands that read what they make, on the format crate's sample log.

use crate::common::{Place, assert_fails, copy, sample, stderr, stdout};
use age::secrecy::ExposeSecret;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

fn place_with_log() -> Place {
    let place = Place::new();
    copy(&sample(), &place.path("log"));
    place
}

#[track_caller]
fn done(output: Output) -> Output {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    output
}

/// A key in a file of this name; the recipient is the result.
fn key(place: &Place, name: &str) -> String {
    let key = age::x25519::Identity::generate();
    fs::write(place.path(name), format!("# a key\n{}\n", key.to_string().expose_secret())).unwrap();
    key.to_public().to_string()
}

/// bugnet without identities that are usual here.
fn run(place: &Place, args: &[&str]) -> Output {
    let mut command = place.bugnet();
    command.env("HOME", place.path("home")).env_remove("XDG_CONFIG_HOME").env_remove("BUGNET_IDENTITY");
    command.args(args).output().unwrap()
}

#[test]
fn a_file_is_as_good_as_a_folder() {
    let place = place_with_log();
    let said = stderr(&done(place.run(&["pack", "log", "-o", "log.bugnet"])));
    assert!(said.contains("packed") && said.contains("log.bugnet") && said.lines().count() == 1, "{said}");
    assert_eq!(fs::metadata(place.path("log.bugnet")).unwrap().permissions().mode() & 0o777, 0o600);
    for args in [&["info"][..], &["dump"], &["dump", "--json"], &["check"], &["ps"], &["order"], &["info", "--threads"]]
    {
        let [folder, file] = ["log", "log.bugnet"].map(|log| place.run(&[args, &[log]].concat()));
        assert_eq!(folder.status.code(), file.status.code(), "{args:?}: {}", stderr(&file));
        let size = |line: &&str| !line.starts_with("size ");
        let lines = |output: &Output| {
            let text = stdout(output).replace("log.bugnet", "log");
            text.lines().filter(size).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(&folder), lines(&file), "{args:?}");
    }
    // By its name where logs lie, and through a link.
    fs::create_dir(place.logs()).unwrap();
    fs::copy(place.path("log.bugnet"), place.logs().join("kept.bugnet")).unwrap();
    symlink(place.path("log.bugnet"), place.path("link")).unwrap();
    done(place.run(&["info", "kept.bugnet"]));
    done(place.run(&["info", "link"]));
    let listed = stdout(&done(place.run(&["ls"])));
    assert!(listed.contains("kept.bugnet  killed by SIGSEGV, one file"), "{listed}");
    done(place.run(&["rm", "kept.bugnet"]));
    assert!(place.path("log.bugnet").exists() && !place.logs().join("kept.bugnet").exists());
}

#[test]
fn the_same_log_makes_the_same_file() {
    let place = place_with_log();
    // What somebody else put there is not packed, nor what a link leads to.
    fs::write(place.path("log/notes.txt"), "mine").unwrap();
    symlink("/etc/passwd", place.path("log/p4242/link")).unwrap();
    fs::create_dir(place.path("log/p4300")).unwrap();
    done(place.run(&["pack", "-q", "log", "-o", "one"]));
    copy(&place.path("one-is-a-file").with_file_name("log"), &place.path("other"));
    fs::remove_file(place.path("other/p4242/link")).unwrap();
    done(place.run(&["pack", "-q", "other", "-o", "two"]));
    done(place.run(&["unpack", "one", "-o", "again"]));
    done(place.run(&["pack", "-q", "again", "-o", "three"]));
    done(place.run(&["pack", "-q", "two", "-o", "four"]));
    let one = fs::read(place.path("one")).unwrap();
    for name in ["two", "three", "four"] {
        assert!(one == fs::read(place.path(name)).unwrap(), "{name}");
    }
    assert!(!place.path("again/notes.txt").exists() && !place.path("again/p4242/link").exists());
    assert!(place.path("again/p4300").is_dir());
    let mode = |path: &str| fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("again"), mode("again/p4242"), mode("again/recording.json")), (0o700, 0o700, 0o600));
    for file in ["recording.json", "p4242/t4242/00000000.bni", "p4242/t4243/tail"] {
        assert!(fs::read(place.path("log").join(file)).unwrap() == fs::read(place.path("again").join(file)).unwrap());
    }
}

#[test]
fn only_who_has_the_key_reads_it() {
    let place = place_with_log();
    let (alice, bob) = (key(&place, "alice"), key(&place, "bob"));
    key(&place, "eve");
    fs::write(place.path("team"), format!("{alice}\n{bob}\n")).unwrap();
    let said = stderr(&done(run(&place, &["pack", "log", "--encrypt-to", "team", "-o", "log.age"])));
    assert!(said.contains("encrypted"), "{said}");
    assert!(fs::read(place.path("log.age")).unwrap().starts_with(b"age-encryption.org/v1\n"));
    let plain = stdout(&done(run(&place, &["dump", "log"])));
    for who in ["alice", "bob"] {
        assert_eq!(stdout(&done(run(&place, &["dump", "log.age", "--identity", who]))), plain);
    }
    done(run(&place, &["check", "log.age", "--identity", "eve", "--identity", "bob"]));
    assert_fails(&run(&place, &["info", "log.age", "--identity", "eve"]), 4, &["encrypted", "eve", "--identity"]);
    assert_fails(&run(&place, &["info", "log.age"]), 4, &["encrypted", "no identity", "--identity"]);
    assert_fails(&run(&place, &["info", "log.age", "--identity", "nobody"]), 2, &["nobody", "cannot be read"]);
    fs::write(place.path("text"), "no key").unwrap();
    assert_fails(&run(&place, &["info", "log.age", "--identity", "text"]), 2, &["text", "no file with identities"]);
    // What people usually have.
    fs::create_dir_all(place.path("home/.config/age")).unwrap();
    fs::copy(place.path("alice"), place.path("home/.config/age/keys.txt")).unwrap();
    done(run(&place, &["info", "log.age"]));
    let mut command = place.bugnet();
    command.env("HOME", "/nonexistent").env("BUGNET_IDENTITY", place.path("bob")).args(["info", "log.age"]);
    done(command.output().unwrap());
    command.env("BUGNET_IDENTITY", place.path("eve"));
    assert_fails(&command.output().unwrap(), 4, &["eve"]);
    // In the clear again.
    done(run(&place, &["unpack", "log.age", "-o", "unpacked"]));
    assert_eq!(stdout(&done(run(&place, &["dump", "unpacked"]))), plain);
    // Altered or cut off, it is not taken for anything else.
    let bytes = fs::read(place.path("log.age")).unwrap();
    fs::write(place.path("cut"), &bytes[..bytes.len() - 10]).unwrap();
    assert_fails(&run(&place, &["info", "cut"]), 3, &["ends too early"]);
    let mut altered = bytes.clone();
    let middle = bytes.len() / 2;
    altered[middle] ^= 1;
    fs::write(place.path("altered"), altered).unwrap();
    assert_fails(&run(&place, &["info", "altered"]), 3, &["damaged"]);
    fs::write(place.path("header"), &bytes[..60]).unwrap();
    assert_fails(&run(&place, &["info", "header"]), 3, &["age header"]);
}

#[test]
fn keys_of_ssh() {
    let place = place_with_log();
    fs::create_dir_all(place.path("home/.ssh")).unwrap();
    let generate = |name: &str, passphrase: &str| {
        let file = place.path(name);
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", passphrase, "-C", "somebody", "-f"]).arg(&file);
        assert!(command.status().expect("ssh-keygen is needed for this test").success());
        fs::read_to_string(file.with_extension("pub")).unwrap().trim().to_owned()
    };
    let public = generate("home/.ssh/id_ed25519", "");
    done(run(&place, &["pack", "-q", "log", "--encrypt-to", &public, "-o", "log.age"]));
    done(run(&place, &["check", "log.age"]));
    let guarded = generate("guarded", "secret");
    done(run(&place, &["pack", "-q", "log", "--encrypt-to", &guarded, "-o", "guarded.age"]));
    assert_fails(&run(&place, &["info", "guarded.age", "--identity", "guarded"]), 2, &["passphrase", "ssh-keygen"]);
    assert_fails(&run(&place, &["info", "guarded.age"]), 4, &["id_ed25519"]);
}

#[test]
fn wrong_use_is_told() {
    let place = place_with_log();
    done(place.run(&["pack", "-q", "log", "-o", "log.bugnet"]));
    let before = fs::read(place.path("log.bugnet")).unwrap();
    assert_fails(&place.run(&["pack", "log", "-o", "log.bugnet"]), 2, &["log.bugnet", "is there already"]);
    assert_eq!(fs::read(place.path("log.bugnet")).unwrap(), before);
    assert_fails(&place.run(&["pack", "log"]), 2, &["--output"]);
    assert_fails(&place.run(&["pack", "nowhere", "-o", "x"]), 3, &["no log at nowhere"]);
    assert_fails(&place.run(&["pack", "-o", "x"]), 3, &["no log given"]);
    assert_fails(&place.run(&["pack", "log", "-o", "no/such/x"]), 4, &["cannot write no/such/x"]);
    assert_fails(&place.run(&["pack", "log", "-o", "x", "--encrypt-to", "age1nobody"]), 2, &["age1nobody"]);
    assert_fails(&place.run(&["pack", "log", "-o", "x", "--encrypt-to", "bob"]), 2, &["bob", "no recipient"]);
    assert_fails(&place.run(&["unpack", "log", "-o", "x"]), 2, &["is a folder"]);
    assert_fails(&place.run(&["unpack", "log.bugnet", "-o", "log"]), 2, &["log", "not an empty folder"]);
    fs::write(place.path("text"), "a text that is no log").unwrap();
    assert_fails(&place.run(&["unpack", "text", "-o", "x"]), 3, &["neither a folder nor"]);
    assert!(!place.path("x").exists());
    let left: Vec<_> = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[test]
fn a_strangers_file_is_read_with_care() {
    let place = place_with_log();
    done(place.run(&["pack", "-q", "log", "-o", "good"]));
    let good = fs::read(place.path("good")).unwrap();
    let commands = [&["info"][..], &["check"], &["dump"], &["ps"], &["unpack", "-o", "out"]];
    let with = |bytes: &[u8], path: &str, words: &[&str]| {
        fs::write(place.path(path), bytes).unwrap();
        for command in commands {
            assert_fails(&place.run(&[command, &[path]].concat()), 3, words);
            assert!(!place.path("out").exists(), "{command:?}");
        }
    };
    with(b"", "empty", &["empty", "not a bugnet log"]);
    with(&good[..good.len() - 1], "cut", &["cut", "ends too early"]);
    with(&good[..20], "short", &["short", "ends too early"]);
    let mut newer = good.clone();
    newer[8] = 9;
    with(&newer, "newer", &["newer", "version 9"]);
    let mut index = good.clone();
    let at = good.len() - 40;
    index[at] ^= 1;
    with(&index, "index", &["index", "checksum"]);
    // A file whose bytes are not those that were packed is named.
    let mut altered = good.clone();
    let at = good.windows(8).position(|window| window == b"BUGNETIV").unwrap() + 30;
    altered[at] ^= 1;
    fs::write(place.path("altered"), altered).unwrap();
    let inside = "altered/p4242/t4242/00000000.bni";
    assert_fails(&place.run(&["dump", "altered"]), 3, &[inside, "checksum"]);
    assert_fails(&place.run(&["unpack", "altered", "-o", "out"]), 3, &[inside, "checksum"]);
    assert!(!place.path("out").exists());
    // What is no file is not waited for.
    assert!(Command::new("mkfifo").arg(place.path("fifo")).status().unwrap().success());
    for path in [place.path("fifo").as_path(), Path::new("/dev/zero")] {
        assert_fails(&place.run(&["info", path.to_str().unwrap()]), 3, &["not a bugnet log"]);
    }
}
