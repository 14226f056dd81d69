//! Work that takes long: Ctrl-C ends it, and what is known by then is told. And what of a machine `bugnet doctor` can use.

use crate::common::{Place, assert_fails, send, stderr, stdout};
use std::process::{Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

#[test]
fn ctrl_c_tells_what_is_known() {
    let place = Place::new();
    // Takes some ten seconds to look at.
    let loops = "my $sum = 0; $sum += $_ & 7 for 1 .. 12_000_000; exit 3";
    let recorded = place.run(&["record", "--quiet", "-o", "log", "perl", "-e", loops]);
    assert_eq!(recorded.status.code(), Some(3), "{}", stderr(&recorded));
    for (command, told) in [
        (&["memcheck", "--no-leaks", "log"][..], "Note: interrupted"),
        (&["slice", "--at", "end", "--reg", "rbx", "--full=all", "log"][..], "interrupted."),
        (&["why", "log"][..], "(interrupted)"),
    ] {
        let interrupted_after = |millis: u64| {
            let command = place.bugnet().args(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            sleep(Duration::from_millis(millis));
            send(&command, "INT");
            command.wait_with_output().unwrap()
        };
        // Before it has begun to look, nothing is known: on a busy machine, that takes longer.
        let has_begun = |output: &Output| output.status.code() != Some(130);
        let output = [800, 1600, 3200, 6400].into_iter().map(interrupted_after).find(has_begun).unwrap();
        assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).contains(told), "no {told:?} in {}", stdout(&output));
    }
}

#[test]
fn what_of_a_machine_can_be_used() {
    let place = Place::new();
    // Whether gdb will do is another question.
    let looked = place.run(&["doctor"]);
    let text = stdout(&looked);
    assert!(matches!(looked.status.code(), Some(0 | 4)), "{text}{}", stderr(&looked));
    for line in ["record        yes   /bin/true was recorded", "replay, ...   yes", "debug         "] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    let looked = place.run(&["doctor", "--gdb", "/nowhere/gdb"]);
    assert_eq!(looked.status.code(), Some(4));
    assert!(stdout(&looked).contains("debug         no    there is no /nowhere/gdb"), "{}", stdout(&looked));
    let findings: serde_json::Value = serde_json::from_slice(&place.run(&["doctor", "--json"]).stdout).unwrap();
    assert!(findings.as_array().unwrap().iter().all(|finding| finding["state"].is_string()), "{findings}");
    // Without its libraries.
    let missing = place.bugnet().arg("doctor").env("BUGNET_LIB", place.path("")).output().unwrap();
    assert_eq!(missing.status.code(), Some(4));
    assert!(stdout(&missing).contains("all           no"), "{}", stdout(&missing));
    assert_fails(&place.run(&["doctor", "log"]), 2, &["unexpected argument"]);
}
