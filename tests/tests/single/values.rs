//! Values are shown as a debugger shows them of a live process: all memory of which the recording tells what it was, and containers as what is in them.

use anyhow::{Context, Result, ensure};
use bugnet_format::types::Addr;
use bugnet_replay::cursor::{Conditions, Cursor, Direction, Origin, Seek, Stopped};
use bugnet_replay::index::Index;
use bugnet_replay::log::Log;
use bugnet_replay::memory::Memory;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use bugnet_tests::bugnet::{Job, Workshop, binary, must_pass, printed, run, source_tree, verify_and_index};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program of `tests/programs/values` without optimisation.
fn compiled(workshop: &Workshop, name: &str) -> Result<PathBuf> {
    let program = workshop.path.join(Path::new(name).file_stem().context("no name")?);
    let (compiler, options) = match name.rsplit('.').next() {
        Some("cpp") => ("g++", ["-g", "-O0"]),
        Some("rs") => ("rustc", ["-g", "-Copt-level=0"]),
        _ => ("gcc", ["-g", "-O0"]),
    };
    let source = source_tree().join("tests/programs/values").join(name);
    let built = run(Command::new(compiler).args(options).arg("-o").arg(&program).arg(source))?;
    ensure!(built.status.success(), "{}", printed(&built));
    Ok(program)
}

/// What gdb prints for these commands on a log.
fn gdb(log: &Path, options: &[&str], commands: &[&str]) -> Result<String> {
    let mut command = Command::new(binary()?);
    command.arg("debug").args(options).arg(log).args(["--", "-nx", "-batch"]);
    commands.iter().for_each(|line| {
        command.args(["-ex", line]);
    });
    Ok(printed(&run(&mut command)?))
}

/// Each of these is in what was said.
fn must_show(said: &str, all: &[&str]) -> Result<()> {
    all.iter().try_for_each(|wanted| {
        ensure!(said.contains(wanted), "{wanted} is missing:\n{said}");
        Ok(())
    })
}

/// The id of one of a log's processes, by its number.
fn process(log: &Path, number: usize) -> Result<String> {
    let processes: serde_json::Value = serde_json::from_slice(&must_pass(&["ps", "--json"], log)?.stdout)?;
    Ok(processes[number]["pid"].as_u64().context("no such process")?.to_string())
}

/// Records `middle.c` in short intervals; the log has no index.
fn middle(workshop: &Workshop, arguments: &[&str]) -> Result<PathBuf> {
    let program = compiled(workshop, "middle.c")?;
    std::fs::write(workshop.path.join("input"), "a line\n")?;
    let program = program.to_string_lossy();
    let command = [&[&*program], arguments].concat();
    let job = Job { stdin: Some("input".into()), ..Job::new(&workshop.path, command) };
    let log = workshop.path.join("log");
    let recorded = run(&mut job.recorded(&log, &["--interval", "1M"])?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    Ok(log)
}

#[test]
fn memory_that_the_recording_tells_is_shown() -> Result<()> {
    let workshop = Workshop::new("values-middle")?;
    let log = middle(&workshop, &["never looked at"])?;
    // The position is in the middle of an interval in the middle.
    let said = gdb(
        &log,
        &[],
        &[
            "seek @9000000",
            "bt",
            "frame function main",
            "p arguments[1]",
            "p *items@3",
            "p table",
            "p settings",
            "p nothing[3]",
            "p mapped[5000]",
            "p mapped[5001]",
            "p mapped[100000]",
            "p line[1]",
        ],
    )?;
    must_show(
        &said,
        &[
            "in main (count=2",
            "= 0x7ff",
            "\"never looked at\"",
            "{{kind = 0 '\\000', price = 0, name = '\\000' <repeats 15 times>}, {kind = 98 'b', price = 1.5,",
            "= {5, 6, 7, 8}",
            "= {a = 1, b = 2, name = \"hello\"",
            "= 0\n",
            "= 120 'x'",
            "= 0 '\\000'",
        ],
    )?;
    // A call had put it there, and the program looks at it later. What lies beside it, the recorder may have logged along with it, or not.
    ensure!(said.contains("= 32 ' '"), "{said}");
    workshop.done()
}

/// From where bytes are known, and that those which are not are not told.
#[test]
fn what_tells_what_memory_was() -> Result<()> {
    let workshop = Workshop::new("values-origins")?;
    let path = middle(&workshop, &[])?;
    verify_and_index(&path)?;
    let (tools, log) = (Tools::locate_for(&binary()?, None)?, Log::open(&path)?);
    let pid = log.processes()?.last().context("no process")?.0;
    let mut cursor = Cursor::open(&tools, &log, pid)?;
    cursor.use_index(Index::find(&log, pid)?.context("no index")?)?;
    let mut symbols = Symbolizer::new(&log, pid)?;
    let work: Vec<u64> = symbols.functions(&["work"]).into_keys().collect();
    cursor.seek(Seek::Start)?;
    let stopped = cursor.run(Direction::Forward, &Conditions { addresses: work, ..Conditions::default() })?;
    ensure!(matches!(stopped, Stopped::Condition(_)), "{stopped:?}");
    // The first argument is what `malloc` gave.
    let items = cursor.regs().gpr[7];
    let at_work = cursor.time();
    for time in [at_work, at_work + 2_500_000, 9_000_000] {
        cursor.seek(Seek::Time(time))?;
        let pieces = cursor.read_with_origin(Addr(items), 96)?;
        ensure!(pieces.iter().all(|piece| piece.origin != Origin::Unknown), "at @{time}: {pieces:?}");
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.clone()).collect();
        ensure!(bytes[32] == b'b' && bytes[40..48] == 1.5_f64.to_le_bytes(), "{bytes:?}");
        ensure!(bytes[33..40].iter().chain(&bytes[..32]).all(|byte| *byte == 0), "{bytes:?}");
    }
    workshop.done()
}

/// A forked child has what its parent had in that moment, of which its own log has nothing.
#[test]
fn a_forked_child_shows_what_its_parent_had() -> Result<()> {
    let workshop = Workshop::new("values-forked")?;
    let program = compiled(&workshop, "forked.c")?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, [&*program.to_string_lossy(), "an argument"]);
    let recorded = run(&mut job.recorded(&log, &[])?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let child = process(&log, 1)?;
    let commands = [
        "break work",
        "reverse-continue",
        "bt",
        "frame function main",
        "p city",
        "p squares",
        "p table",
        "p *items@5",
        "p title",
        "p arguments[1]",
        "frame function serve",
        "p state",
        "frame function work",
        "p why",
    ];
    let said = gdb(&log, &["-p", &child], &commands)?;
    must_show(
        &said,
        &[
            "in main (count=2",
            "\"Lisbon\"",
            "= {0, 1, 4, 9, 16, 25}",
            "= {0, 1, 8, 27, 64, 0, 0, 0}",
            "{{number = 100, name = \"thing 0\", '\\000' <repeats 12 times>, price = 0}",
            "{number = -7, name = \"thing 2\", '\\000' <repeats 12 times>, price = 3}",
            "{number = 103, name = \"thing 3\", '\\000' <repeats 12 times>, price = 4.5}",
            "\"shop\"",
            "\"an argument\"",
            "= {7, 2, 3, 28}",
            "\"asked\"",
        ],
    )?;
    workshop.done()
}

/// Of memory that a forked child shares, nobody knows what others have written there since.
#[test]
fn what_a_forked_child_shares_is_not_guessed() -> Result<()> {
    let workshop = Workshop::new("values-shared")?;
    let program = compiled(&workshop, "shared.c")?;
    let log = workshop.path.join("log");
    let recorded = run(&mut Job::new(&workshop.path, [&*program.to_string_lossy()]).recorded(&log, &[])?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let child = process(&log, 1)?;
    let said = gdb(&log, &["-p", &child], &["break work", "reverse-continue", "p own", "p *seen", "p *unseen"])?;
    ensure!(said.contains("= 3") && said.matches("Cannot access memory").count() == 2, "{said}");
    workshop.done()
}

/// A light log has what a child of `vfork` did, and so what memory is behind that.
#[test]
fn memory_is_known_behind_a_child_that_had_it() -> Result<()> {
    let workshop = Workshop::new("values-lent")?;
    let program = compiled(&workshop, "lent.c")?;
    let log = workshop.path.join("log");
    let job = Job::new(&workshop.path, [&*program.to_string_lossy(), "an argument"]);
    let recorded = run(&mut job.recorded(&log, &["--light"])?)?;
    ensure!(recorded.status.success(), "{}", printed(&recorded));
    let first = process(&log, 0)?;
    let told = printed(&must_pass(&["info", "-p", &first], &log)?);
    ensure!(!told.contains("handled"), "no signal was: {told}");
    let commands = [
        "break work",
        "reverse-continue",
        "bt",
        "frame function main",
        "p city",
        "p squares",
        "p table",
        "p items[4]",
        "p arguments[1]",
    ];
    let said = gdb(&log, &["-p", &first], &commands)?;
    must_show(
        &said,
        &[
            "in main (count=2",
            "\"Lisbon\"",
            "= {0, 1, 4, 9, 16, 25}",
            "= {0, 1, 8, 27, 64, 0, 0, 0}",
            "= {number = 104, name = \"thing 4\", '\\000' <repeats 12 times>, price = 6}",
            "\"an argument\"",
        ],
    )?;
    workshop.done()
}

/// What has made a value is found behind a child of `vfork`, too, which had the thread of its parent.
#[test]
fn a_value_is_followed_past_a_child_that_had_the_thread() -> Result<()> {
    let workshop = Workshop::new("values-kept")?;
    let program = compiled(&workshop, "keeps.c")?;
    let log = workshop.path.join("log");
    run(&mut Job::new(&workshop.path, [&*program.to_string_lossy()]).recorded(&log, &["--light"])?)?;
    let said = printed(&must_pass(&["slice", "-p", &process(&log, 0)?], &log)?);
    ensure!(!said.contains("signal 0"), "{said}");
    must_show(&said, &["in choose", "return count * 16 + 7"])?;
    workshop.done()
}

/// The developer's own scripts for gdb, of Python, GLib and Go, do what they do of a live process.
#[test]
#[ignore = "takes packages that make soak installs"]
fn scripts_for_python_glib_and_go() -> Result<()> {
    let workshop = Workshop::new("values-scripts")?;
    let shows =
        |log: &Path, commands: &[&str], all: &[&str]| -> Result<()> { must_show(&gdb(log, &[], commands)?, all) };
    let script = "import ctypes\nclass Box:\n def __init__(self): self.items = [1, {'a': (3, 4)}]\n\
                  def inner(n, box):\n if n == 0: ctypes.string_at(0)\n inner(n - 1, box)\ninner(2, Box())\n";
    std::fs::write(workshop.path.join("crashes.py"), script)?;
    let log = workshop.path.join("python");
    run(&mut Job::new(&workshop.path, ["/usr/bin/python3", "crashes.py"]).recorded(&log, &[])?)?;
    let calls = ["crashes.py\", line 6, in inner", "crashes.py\", line 7, in <module>"];
    shows(&log, &["py-bt"], &calls)?;
    shows(&log, &["py-locals"], &["n = 0", "box = <Box(items=[1, {'a': (3, 4)}]) at remote"])?;

    let source = "#include <glib.h>\nint main(void) { GList *list = NULL; \
                  for (long i = 1; i < 4; i++) list = g_list_append(list, GINT_TO_POINTER(i)); return *(volatile int *)0; }";
    std::fs::write(workshop.path.join("lists.c"), source)?;
    let built = "gcc -g -O0 lists.c -o lists $(pkg-config --cflags --libs glib-2.0)";
    let built = run(Command::new("sh").args(["-c", built]).current_dir(&workshop.path))?;
    ensure!(built.status.success(), "{}", printed(&built));
    let log = workshop.path.join("glib");
    run(&mut Job::new(&workshop.path, ["./lists"]).recorded(&log, &[])?)?;
    shows(&log, &["p list"], &["= {0x1, 0x2, 0x3}"])?;

    let source = "package main\ntype node struct { name string; next *node }\n\
                  func walk(n *node, names []string) int { names = append(names, n.name); return walk(n.next, names) }\n\
                  func main() { println(walk(&node{\"one\", &node{\"two\", nil}}, nil)) }\n";
    std::fs::write(workshop.path.join("walks.go"), source)?;
    let mut go = Command::new("go");
    go.args(["build", "-gcflags=all=-N -l", "walks.go"]).current_dir(&workshop.path);
    let built = run(go.env("HOME", &workshop.path).env("GO111MODULE", "off"))?;
    ensure!(built.status.success(), "{}", printed(&built));
    let log = workshop.path.join("go");
    run(&mut Job::new(&workshop.path, ["./walks"]).recorded(&log, &[])?)?;
    let goes = [
        "break main.walk",
        "reverse-continue",
        "reverse-continue",
        "next",
        "p names",
        "p $len(names)",
        "info goroutines",
    ];
    shows(&log, &goes, &["= []string = {\"one\", \"two\"}", "= 2", "running"])?;
    workshop.done()
}

#[test]
fn containers_of_rust_are_shown_as_what_is_in_them() -> Result<()> {
    let workshop = Workshop::new("values-rust")?;
    let program = compiled(&workshop, "shop.rs")?;
    let log = workshop.path.join("log");
    run(&mut Job::new(&workshop.path, [program.to_string_lossy()]).recorded(&log, &[])?)?;
    let own = must_pass(&["at", "--full", "shop.rs:28"], &log)?;
    let own = String::from_utf8_lossy(&own.stdout).into_owned();
    must_show(
        &own,
        &[
            "prices = &[u32](size=3) = {289, 599, 119}",
            "Vec(size=3) = {\"jam\", \"honey\", \"sugar\"}",
            "stock = HashMap(size=1) = {[\"jam\"] = 30}",
            "seen = HashSet(size=1) = {4}",
            "shelves = BTreeMap(size=2) = {[3] = \"honey\", [7] = \"jam\"}",
            "many = BTreeMap(size=40) = {[0] = 0, [1] = 10, [2] = 20, [3] = 30, [4] = 40, [5] = 50, [6] = 60, [7] = 70,",
            "odd = BTreeSet(size=15) = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29}",
            "empty = BTreeMap(size=0)",
            "paid = shop::Paid::Part(5, 0x",
            "best = Some(\"jam\")",
            "nothing = None",
            "failed = Err(\"closed\")",
        ],
    )?;
    workshop.done()
}

#[test]
fn containers_are_shown_as_what_is_in_them() -> Result<()> {
    let workshop = Workshop::new("values-containers")?;
    let program = compiled(&workshop, "shop.cpp")?;
    let log = workshop.path.join("log");
    run(&mut Job::new(&workshop.path, [program.to_string_lossy()]).recorded(&log, &[])?)?;
    let own = must_pass(&["at", "sum"], &log)?;
    let own = String::from_utf8_lossy(&own.stdout).into_owned();
    let full = String::from_utf8_lossy(&must_pass(&["at", "--full", "end"], &log)?.stdout).into_owned();
    ensure!(!own.contains("registers:") && full.contains("registers:"), "{own}\n{full}");
    // The first screen is one.
    ensure!(own.lines().count() < 30, "{own}");
    let shown = gdb(
        &log,
        &[],
        &[
            "frame function main",
            "p orders",
            "p orders[1]",
            "p orders.size()",
            "p stock",
            "p motto",
            "p seen",
            "p names",
            "p none",
        ],
    )?;
    let orders = "std::vector of length 5, capacity 8 = {{kind = 97 'a', price = 0, who = \"customer 0\"}, {kind = 98 'b', \
                  price = 1.5, who = \"customer 1\"}, ";
    let stock = "std::map with 5 elements = {[\"customer 0\"] = 10, [\"customer 1\"] = 11, ";
    for wanted in [
        orders,
        stock,
        "\"a text that is too long to be kept inside of itself\"",
        "std::set with 5 elements = {",
        "std::unordered_map with 1 element = {[7] = \"seven\"}",
        "std::vector of length 0, capacity 0",
    ] {
        ensure!(shown.contains(wanted), "gdb does not show {wanted}:\n{shown}");
        ensure!(full.contains(wanted) || own.contains(wanted), "our own report does not show {wanted}:\n{full}\n{own}");
    }
    for wanted in ["= {kind = 98 'b', price = 1.5, who = \"customer 1\"}\n", "= 5\n"] {
        ensure!(shown.contains(wanted), "an xmethod does not work: {wanted}\n{shown}");
    }
    workshop.done()
}

/// gdb leaves it to the replay when a breakpoint counts, in both directions.
#[test]
fn conditions_of_breakpoints() -> Result<()> {
    let workshop = Workshop::new("values-conditions")?;
    let source = "static volatile unsigned long total;\n__attribute__((noinline)) static void hit(int number, const char *text) {\n    \
                  total += number ^ text[0];\n}\nint main(void) {\n    for (int i = 0; i < 200000; i++)\n        hit(i, i == 777 ? \"b\" \
                  : \"a\");\n    return 0;\n}\n";
    let (file, program) = (workshop.path.join("hits.c"), workshop.path.join("hits"));
    std::fs::write(&file, source)?;
    let built = run(Command::new("gcc").args(["-g", "-O0", "-o"]).arg(&program).arg(&file))?;
    ensure!(built.status.success(), "{}", printed(&built));
    let log = workshop.path.join("log");
    run(&mut Job::new(&workshop.path, [program.to_string_lossy()]).recorded(&log, &["--interval", "1M"])?)?;
    // gdb itself looks at what its expressions for others cannot say, as a character in quotes: so a number.
    let commands = [
        "break hit if number == 150000",
        "continue",
        "p number",
        "break hit if *text == 98",
        "delete 1",
        "reverse-continue",
        "p number",
        "condition 2 number > 776 && number % 1000 == 1",
        "continue",
        "p number",
        "info breakpoints",
        "condition 2",
        "continue",
        "p number",
    ];
    let forward = gdb(&log, &["--start"], &commands)?;
    let values: Vec<&str> = forward.lines().filter(|line| line.starts_with('$')).collect();
    ensure!(values == ["$1 = 150000", "$2 = 777", "$3 = 1001", "$4 = 1002"], "{forward}");
    // Had gdb told itself when it counts, it would have stopped, and counted, each time.
    let hits = forward.split("already hit ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    ensure!(hits.is_some_and(|hits| hits < 100), "{hits:?}\n{forward}");
    workshop.done()
}

/// What a program finds below its first stack pointer is zero, as natively, and known.
#[test]
fn the_stack_begins_as_the_kernel_makes_it() -> Result<()> {
    let workshop = Workshop::new("values-stack")?;
    let source = ".globl _start\n_start:\n lea -60000(%rsp), %rdi\n xor %eax, %eax\nnext: or (%rdi), %al\n inc %rdi\n cmp %rsp, %rdi\n \
                  jne next\n movzbl %al, %edi\n mov $60, %eax\n syscall\n";
    let (file, program) = (workshop.path.join("first.s"), workshop.path.join("first"));
    std::fs::write(&file, source)?;
    let built = run(Command::new("gcc").args(["-nostdlib", "-static", "-o"]).arg(&program).arg(&file))?;
    ensure!(built.status.success(), "{}", printed(&built));
    let job = Job::new(&workshop.path, [program.to_string_lossy().into_owned(), "an argument".into()]);
    let path = workshop.path.join("log");
    let (native, recorded) = (run(&mut job.native()?)?, run(&mut job.recorded(&path, &[])?)?);
    ensure!(native.status.code() == Some(0) && recorded.status.code() == Some(0), "{}", printed(&recorded));
    let (tools, log) = (Tools::locate_for(&binary()?, None)?, Log::open(&path)?);
    let mut cursor = Cursor::open(&tools, &log, log.processes()?.last().context("no process")?.0)?;
    let rsp = cursor.regs().gpr[4];
    ensure!(cursor.read_memory(Addr(rsp - 60_000), 60_000)? == vec![0; 60_000], "the stack is not known below");
    let argument = u64::from_le_bytes(cursor.read_memory(Addr(rsp + 16), 8)?.try_into().unwrap_or_default());
    ensure!(cursor.read_memory(Addr(argument), 12)? == b"an argument\0", "the argument is not known");
    workshop.done()
}
