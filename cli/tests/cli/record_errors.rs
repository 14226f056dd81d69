//! What `bugnet record` says where it cannot record. None of it needs DynamoRIO.

use crate::common::{Place, assert_fails, stdout};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

/// The first bytes of an ELF file: class 1 or 2 for 32 or 64 bits, type and machine.
fn elf(class: u8, kind: u16, machine: u16) -> Vec<u8> {
    let mut file = b"\x7fELF".to_vec();
    file.extend([class, 1, 1, 0]);
    file.resize(16, 0);
    file.extend(kind.to_le_bytes());
    file.extend(machine.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    file.resize(64, 0);
    file
}

/// No log may be left where nothing was recorded.
#[track_caller]
fn assert_no_log(place: &Place) {
    if let Ok(mut entries) = fs::read_dir(place.logs()) {
        assert!(entries.next().is_none());
    }
}

#[test]
fn no_such_program() {
    let place = Place::new();
    assert_fails(&place.run(&["record", "no-such-program-here"]), 127, &["no such program", "PATH"]);
    assert_fails(&place.run(&["record", "./nothing"]), 127, &["no such program: ./nothing"]);
    assert_fails(&place.run(&["record", "/dev/null/x"]), 127, &["no such program"]);
    assert_fails(&place.run(&["record", ""]), 127, &["no such program", "empty"]);
    assert_no_log(&place);
}

#[test]
fn not_executable() {
    let place = Place::new();
    fs::write(place.path("data"), "text").unwrap();
    assert_fails(&place.run(&["record", "./data"]), 126, &["./data", "execute permission"]);
    assert_fails(&place.run(&["record", "/tmp"]), 126, &["/tmp is a directory"]);
    assert_fails(&place.run(&["record", "/dev/null"]), 126, &["/dev/null", "cannot be executed"]);
    assert_no_log(&place);
}

#[test]
fn a_file_that_cannot_be_executed_is_found_in_path_but_a_later_one_is_taken() {
    let place = Place::new();
    for (folder, mode) in [("first", 0o644), ("second", 0o755)] {
        fs::create_dir(place.path(folder)).unwrap();
        let file = place.path(folder).join("tool");
        fs::write(&file, format!("{folder}: neither ELF nor script")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }
    let run = |path: &str| place.bugnet().env("PATH", path).args(["record", "tool"]).output().unwrap();
    assert_fails(&run("first"), 126, &["first/tool", "execute permission"]);
    assert_fails(&run("nowhere:first:second"), 126, &["second/tool", "neither an ELF file nor a script"]);
    assert_fails(&run("nowhere"), 127, &["no such program: tool"]);
}

#[test]
fn other_architectures() {
    let place = Place::new();
    let check = |name: &str, contents: &[u8], words: &[&str]| {
        let path = place.executable(name, contents);
        let path = path.to_str().unwrap();
        assert_fails(&place.run(&["record", path]), 126, &[&[path, "64-bit x86"], words].concat());
    };
    check("i386", &elf(1, 2, 3), &["a 32-bit program"]);
    check("x32", &elf(1, 2, 62), &["a 32-bit program"]);
    check("arm", &elf(2, 2, 183), &["another processor", "AARCH64"]);
    check("core", &elf(2, 4, 62), &["a core dump"]);
    check("object", &elf(2, 1, 62), &["an object file"]);
    check("cut", b"\x7fELF", &["damaged"]);
    check("cut-later", &elf(2, 2, 62)[..40], &["damaged"]);
    check("text", b"echo hello\n", &["neither an ELF file nor a script"]);
    check("empty", b"", &["neither an ELF file nor a script"]);
    assert_no_log(&place);
}

#[test]
fn scripts() {
    let place = Place::new();
    let run = |name: &str, contents: &str| {
        let path = place.executable(name, contents.as_bytes());
        place.run(&["record", path.to_str().unwrap()])
    };
    assert_fails(
        &run("none", "#!/no/such/interpreter -x\n"),
        126,
        &["/none", "/no/such/interpreter", "does not exist"],
    );
    assert_fails(&run("blank", "#!  \n"), 126, &["/blank", "names no interpreter"]);
    assert_fails(&run("folder", "#!/tmp\n"), 126, &["/tmp is a directory"]);
    let own = place.path("loop");
    assert_fails(&run("loop", &format!("#!{}\n", own.display())), 126, &["/loop", "too many interpreters"]);
    let text = place.executable("text", b"neither");
    assert_fails(&run("chain", &format!("#!{}\n", text.display())), 126, &["/text", "neither"]);
    assert_no_log(&place);
}

#[test]
fn setuid_programs() {
    let place = Place::new();
    let program = place.executable("privileged", &fs::read("/bin/true").unwrap());
    // Only root can make a program that belongs to somebody else; but then there is one on every system.
    let other_users = chown(&program, Some(65534), Some(65534)).is_ok();
    if other_users {
        for (mode, word) in [(0o4755, "setuid"), (0o2755, "setgid")] {
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
            assert_fails(&place.run(&["record", "./privileged"]), 126, &["./privileged", word]);
        }
    } else {
        assert_fails(&place.run(&["record", "/usr/bin/su"]), 126, &["/usr/bin/su", "setuid"]);
    }
    assert_no_log(&place);
}

#[test]
fn log_folders() {
    let place = Place::new();
    fs::write(place.path("file"), "mine").unwrap();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/file"), "mine").unwrap();
    let exists = "is not an empty folder";
    assert_fails(&place.run(&["record", "-o", "file", "true"]), 125, &["file", exists]);
    assert_fails(&place.run(&["record", "-o", "full", "true"]), 125, &["full", exists]);
    assert_fails(&place.run(&["record", "-o", "no/parent", "true"]), 125, &["cannot make", "no/parent", "-o"]);
    assert_fails(&place.run(&["record", "-o", "/proc/bugnet-log", "true"]), 125, &["cannot make", "/proc/bugnet-log"]);
    assert_eq!(fs::read_to_string(place.path("full/file")).unwrap(), "mine");

    let run = |variables: &[(&str, &str)]| {
        let mut command = place.bugnet();
        for name in ["BUGNET_DIR", "XDG_DATA_HOME", "HOME"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied()).args(["record", "true"]).output().unwrap()
    };
    assert_fails(&run(&[]), 125, &["BUGNET_DIR", "HOME", "-o"]);
    assert_fails(&run(&[("BUGNET_DIR", "/dev/null/logs")]), 125, &["cannot make", "/dev/null/logs"]);
    assert_fails(&run(&[("HOME", "/proc/none")]), 125, &["/proc/none/.local/share/bugnet"]);
}

#[test]
fn missing_tools() {
    let place = Place::new();
    fs::create_dir(place.path("lib")).unwrap();
    fs::create_dir(place.path("empty")).unwrap();
    let run = |args: &[&str]| place.bugnet().env("BUGNET_LIB", place.path("lib")).args(args).output().unwrap();
    assert_fails(&run(&["record", "true"]), 125, &["libdynamorio.so is missing", place.path("lib").to_str().unwrap()]);
    assert_no_log(&place);
    assert_fails(&run(&["record", "-o", "new", "true"]), 125, &["is missing"]);
    assert!(!place.path("new").exists());
    assert_fails(&run(&["record", "-o", "empty", "true"]), 125, &["is missing"]);
    assert_eq!(fs::read_dir(place.path("empty")).unwrap().count(), 0);
    fs::write(place.path("lib/libdynamorio.so"), "").unwrap();
    assert_fails(&run(&["record", "true"]), 125, &["libbugnet_logger.so is missing"]);
}

#[test]
fn tools_that_cannot_be_started() {
    let place = Place::new();
    fs::create_dir(place.path("lib;odd")).unwrap();
    for name in ["libdynamorio.so", "libbugnet_logger.so"] {
        fs::write(place.path("lib;odd").join(name), "").unwrap();
    }
    let run = |lib: &Path| place.bugnet().env("BUGNET_LIB", lib).args(["record", "true"]).output().unwrap();
    assert_fails(&run(&place.path("lib;odd")), 125, &["lib;odd", "semicolon", "another folder"]);
    fs::rename(place.path("lib;odd"), place.path("lib")).unwrap();
    assert_fails(&run(&place.path("lib")), 125, &["cannot start", "lib/libdynamorio.so"]);
    assert_no_log(&place);
}

#[test]
fn wrong_use() {
    let place = Place::new();
    assert_fails(&place.run(&["record"]), 125, &["PROG"]);
    assert_fails(&place.run(&["record", "--bogus", "true"]), 125, &["--bogus"]);
    assert_fails(&place.run(&["record", "--interval", "0", "true"]), 125, &["--interval"]);
    assert_fails(&place.run(&["record", "--keep", "many", "true"]), 125, &["--keep", "k, M or G"]);
    assert_fails(&place.run(&["record", "--cpu", "pdp11", "true"]), 125, &["--cpu", "x86-64-v3"]);
    let help = place.run(&["record", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    for word in ["Examples:", "Exit status:", "125", "126", "127", "--check-every"] {
        assert!(stdout(&help).contains(word), "{word}");
    }
}
