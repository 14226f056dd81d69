//! Programs where resources are short or the surroundings unusual: they run as natively, with their own exit status, and what
//! cannot be recorded is said not to be.

use anyhow::{Context, Result, ensure};
use bugnet_tests::alike::{PROGRAM, Place, is_root, namespace};
use bugnet_tests::bugnet::{Workshop, printed};
use bugnet_tests::moved::Moved;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn limits_that_leave_room() -> Result<()> {
    let workshop = Workshop::new("limits-room")?;
    let place = Place::new(&workshop)?;
    let limits = [
        "ulimit -Sn 12",
        "ulimit -n 20",
        "ulimit -f 100000",
        "ulimit -s 300",
        "ulimit -s unlimited",
        "ulimit -c 0",
        "ulimit -l 0",
        "ulimit -i 0",
        "ulimit -t 200",
        "ulimit -q 0",
        "ulimit -Sv 400000",
        "ulimit -Sd 100000",
        "umask 0777",
        "umask 0",
        "unset HOME",
        "export TMPDIR=/nonexistent",
        "mkdir -p gone; cd gone; rmdir ../gone",
    ];
    for limit in limits {
        // As root, all limits can be raised; the log has another place than the working directory.
        let recorded = place.alike(&format!("{limit}; exec $RECORD sh -c \"$PROGRAM\""))?;
        if limit.starts_with("ulimit -S") && limit.contains(['v', 'd']) && !is_root() {
            continue;
        }
        place.is_whole(&recorded).with_context(|| limit.to_owned())?;
    }
    workshop.done()
}

#[test]
fn closed_descriptors() -> Result<()> {
    let workshop = Workshop::new("limits-closed")?;
    let place = Place::new(&workshop)?;
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"] {
        let show = "for i in 0 1 2 3 4 5; do [ ! -e /proc/self/fd/\\$i ] || echo \\$i; done >open; exit 5";
        place.alike(&format!("$RECORD sh -c \"{show}\" {closed}; status=$?; cat open; exit $status"))?;
        let check = place.bugnet("check")?;
        ensure!(check.contains("whole"), "{closed}: {check}");
        place.bugnet("replay")?;
    }
    workshop.done()
}

#[test]
fn limits_that_leave_no_room() -> Result<()> {
    let workshop = Workshop::new("limits-none")?;
    let place = Place::new(&workshop)?;
    for (limit, why) in [("ulimit -f 64", "ulimit -f"), ("ulimit -n 8", "ulimit -n"), ("ulimit -n 4", "ulimit -n")] {
        let recorded = place.alike(&format!("{limit}; exec $RECORD sh -c \"$PROGRAM\""))?;
        place.is_unrecorded(&recorded, why).with_context(|| limit.to_owned())?;
    }
    workshop.done()
}

#[test]
fn as_another_user_than_root() -> Result<()> {
    let workshop = Workshop::new("limits-hard")?;
    let moved = Moved::new("limits-hard")?;
    let logs = moved.folder.join("logs");
    fs::create_dir(&logs)?;
    fs::set_permissions(&logs, fs::Permissions::from_mode(0o777))?;
    let place = Place { folder: "/".into(), bugnet: moved.bugnet(), log: logs.join("log") };
    let user = if is_root() { "setpriv --reuid=65533 --regid=65533 --clear-groups" } else { "" };
    // A mask that takes the rights of others than root to their own files.
    let recorded = place.alike(&format!("umask 0777; exec {user} $RECORD sh -c '{PROGRAM}'"))?;
    place.is_whole(&recorded)?;
    for (limit, why) in [
        ("--as=500000000", "ulimit -v"),
        ("--as=2000000000", "ulimit -v"),
        ("--data=100000000", "ulimit -d"),
        ("--nproc=1", "ulimit -u"),
    ] {
        // With one process, a shell could start no other.
        let program = if limit == "--nproc=1" { "umask; exit 3" } else { PROGRAM };
        let recorded = place.alike(&format!("exec prlimit {limit} {user} $RECORD sh -c '{program}'"))?;
        if limit == "--nproc=1" && !is_root() {
            // Whoever runs the tests has other processes.
            continue;
        }
        place.is_unrecorded(&recorded, why).with_context(|| limit.to_owned())?;
    }
    workshop.done()
}

#[test]
fn limits_that_a_recorded_program_sets() -> Result<()> {
    let workshop = Workshop::new("limits-set")?;
    let place = Place::new(&workshop)?;
    for limit in ["-v 400000", "-d 100000", "-n 9", "-Sn 9", "-s 200", "-c 0"] {
        let recorded = place.alike(&format!("exec $RECORD sh -c \"ulimit {limit}; $PROGRAM\""))?;
        place.is_whole(&recorded).with_context(|| limit.to_owned())?;
    }
    // The log cannot be written any more, by this program or those that it starts.
    let recorded = place.alike("exec $RECORD sh -c \"ulimit -f 64; $PROGRAM\"")?;
    place.is_unrecorded(&recorded, "ulimit -f")?;
    ensure!(printed(&recorded).contains("recording ends here: "), "{}", printed(&recorded));
    workshop.done()
}

#[test]
fn rights_that_are_given_up() -> Result<()> {
    let workshop = Workshop::new("limits-rights")?;
    let place = Place::new(&workshop)?;
    // Without root, this fails natively, too.
    let become_other = "setpriv --reuid=65533 --regid=65533 --clear-groups";
    let script = format!("{become_other} sh -c 'id -u; exit 6'; echo $?; {become_other} /bin/true; echo $?");
    let recorded = place.alike(&format!("exec $RECORD sh -c \"{script}\""))?;
    if is_root() {
        place.is_unrecorded(&recorded, "cannot be written from here")?;
    }
    workshop.done()
}

#[test]
fn no_proc() -> Result<()> {
    let workshop = Workshop::new("limits-proc")?;
    let place = Place::new(&workshop)?;
    let inside = format!("exec $RECORD {} sh -c \"umount -l /proc; /bin/echo inside; exit 6\"", namespace());
    let recorded = place.alike(&inside)?;
    place.is_unrecorded(&recorded, "/proc")?;
    let outside = format!("exec {} sh -c \"umount -l /proc; exec $RECORD sh -c 'echo outside; exit 6'\"", namespace());
    let recorded = place.alike(&outside)?;
    place.is_unrecorded(&recorded, "/proc")?;
    workshop.done()
}

#[test]
fn small_disks() -> Result<()> {
    let workshop = Workshop::new("limits-disks")?;
    let mut place = Place::new(&workshop)?;
    workshop.folder("disk")?;
    place.log = workshop.path.join("copy");
    let sizes =
        ["8k", "16k", "40k", "100k", "600k", "1200k", "2m", "3m", "4m", "5m"].map(|size| format!("size={size}"));
    let inodes = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24].map(|inodes| format!("size=20m,nr_inodes={inodes}"));
    for options in sizes.iter().chain(&inodes) {
        // The log leaves the file system with it.
        let script = format!(
            "mount -t tmpfs -o noexec,{options} tmpfs disk; export BUGNET_DIR=$PWD/disk; \
             ${{RECORD:+{} record --}} sh -c \"$PROGRAM\"; status=$?; [ ! -e disk/sh-0 ] || cp -r disk/sh-0 copy; exit $status",
            place.bugnet.display()
        );
        fs::write(workshop.path.join("script"), script)?;
        let recorded = place.alike(&format!("exec {} bash script", namespace()))?;
        let about = || format!("{options}\n{}", printed(&recorded));
        ensure!(printed(&recorded).contains("No space left on device"), "{}", about());
        // Where there was no room at all, there is no log.
        if place.log.exists() {
            for command in ["check", "ps", "replay"] {
                place.sound(command).with_context(about)?;
            }
        }
    }
    workshop.done()
}

#[test]
fn a_log_that_is_taken_away() -> Result<()> {
    let workshop = Workshop::new("limits-gone")?;
    let place = Place::new(&workshop)?;
    for remove in ["rm -rf log", "mv log elsewhere", "rm -rf log/*", "rm -rf log; : >log", "chmod 0 log; rm -rf log"] {
        let script = format!("{remove}; {PROGRAM}");
        fs::write(workshop.path.join("script"), &script)?;
        let recorded = place.alike("exec $RECORD sh script 2>message").with_context(|| remove.to_owned())?;
        let message = fs::read_to_string(workshop.path.join("message"))?;
        let said = message.contains("somebody has taken away") && message.contains("log");
        ensure!(said, "{remove}: {message}\n{}", printed(&recorded));
        ensure!(!message.contains("the recorder has failed"), "{remove}: {message}");
        let _ = fs::remove_file(&place.log);
        let _ = fs::remove_dir_all(workshop.path.join("elsewhere"));
    }
    workshop.done()
}
