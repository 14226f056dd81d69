//! Links the capture program at a fixed address, without libc and without an interpreter, and makes its table of system calls.

use bugnet_system_calls::{Arg, Shape, Size};
use std::fmt::Write as _;

/// Where the program lies: Linux places nothing here by itself, and neither do sanitizers (the shadow of AddressSanitizer ends at 0x1000_8000_0000).
const ADDRESS: &str = "0x110000000000";

/// What is kept of what an argument points at, as `capture/src/table.rs` has it.
fn taken(arg: &Arg) -> Option<String> {
    let shape = match arg {
        Arg::Text => return Some("Text".to_owned()),
        Arg::Out(Shape::Iovecs(count)) => return Some(format!("Vector({count}, false)")),
        Arg::In(shape) | Arg::InOut(shape) => shape,
        _ => return None,
    };
    let bytes = |bytes: u64| Some(format!("Bytes({bytes})"));
    match *shape {
        Shape::Bytes(Size::OfArg(arg)) => Some(format!("Arg({arg}, 1, Taken::SHOWN)")),
        Shape::SocketAddress(Size::OfArg(arg)) => Some(format!("Arg({arg}, 1, 128)")),
        Shape::PollFds(count) => Some(format!("Arg({count}, 8, 64)")),
        Shape::Iovecs(count) => Some(format!("Vector({count}, true)")),
        Shape::Timespec | Shape::Timeval | Shape::Rlimit => bytes(16),
        Shape::Sigaction => bytes(32),
        Shape::Signals => bytes(8),
        Shape::EpollEvent => bytes(12),
        Shape::Words(count) => bytes(4 * count),
        // What is not shown, or what the call writes.
        _ => None,
    }
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for arg in ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,-z,norelro", "-Wl,--build-id=none"] {
        println!("cargo:rustc-link-arg-bins={arg}");
    }
    println!("cargo:rustc-link-arg-bins=-Wl,--image-base={ADDRESS}");
    let mut table = String::from("[\n");
    let mut known = 0;
    for call in bugnet_system_calls::all() {
        let writes = call
            .writes
            .map(|writes| writes.iter().map(|(arg, size)| format!("({arg}, Kernel::{size:?}),")).collect::<String>());
        let writes = writes.map_or("None".to_owned(), |writes| format!("Some(&[{writes}])"));
        let sends = call.sends.map_or("None".to_owned(), |sends| format!("Some(Sent::{sends:?})"));
        let takes = call.args.unwrap_or_default().iter().enumerate();
        let takes: String = takes.filter_map(|(at, arg)| Some(format!("({at}, Taken::{}),", taken(arg)?))).collect();
        let (number, last, waits) = (call.number, call.writes_last, call.waits.is_some());
        (known..number).for_each(|_| table.push_str("    None,\n"));
        known = number + 1;
        let _ = writeln!(
            table,
            "    Some(Call {{ writes: {writes}, writes_last: {last}, waits: {waits}, sends: {sends}, takes: &[{takes}] }}),"
        );
    }
    table.push(']');
    // Slices print as arrays.
    let table = table.replace("Command(1, [", "Command(1, &[").replace("Command(2, [", "Command(2, &[");
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    std::fs::write(format!("{out}/table.rs"), table).unwrap_or_else(|e| panic!("the table of system calls: {e}"));
    let ioctls: String =
        bugnet_system_calls::IOCTLS.iter().map(|(command, bytes)| format!("({command}, {bytes}),")).collect();
    std::fs::write(format!("{out}/ioctls.rs"), format!("&[{ioctls}]"))
        .unwrap_or_else(|e| panic!("the table of ioctls: {e}"));
}
