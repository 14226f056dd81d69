//! What is measured.

use crate::spec;
use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Job, run, source_tree};
use bugnet_tests::inputs;
use bugnet_tests::parallel::PARALLEL;
use bugnet_tests::programs::{PROGRAMS, Program, Scale, compile, program};
use bugnet_tests::threaded;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Prepares the input in a folder and says what to run there.
pub type Prepare = Box<dyn Fn(&Path) -> Result<Job>>;

/// A workload.
pub struct Workload {
    /// Its name.
    pub name: String,
    /// The list that it belongs to: `single`, `programs`, `start`, `calls`, `long`, `parallel`, `sharing` or `spec`.
    pub group: &'static str,
    /// Whether one of its processes has several threads that work: a merged replay then does more than one of each thread.
    pub has_threads: bool,
    /// Makes its job.
    pub job: Prepare,
    /// Further arguments for `bugnet record`.
    pub options: &'static [&'static str],
}

/// How much work the workloads get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// For figures that count.
    Full,
    /// For a look.
    Quick,
    /// For tools that are hundreds of times slower than native: `single` only, at most 500 million instructions each.
    Peers,
}

/// Single-threaded programs that take 1.5 to 10 s natively at their full size, and their sizes for [`Inputs::Peers`].
const SINGLE: &[(Program, u64)] = &[
    (program("bzip2-tar", "bzip2", &["/bin/bzip2", "-9c", "input.tar"], [2 << 20, 32 << 20], tar), 512 << 10),
    (program("gzip-tar", "gzip", &["/bin/gzip", "-9nc", "input.tar"], [2 << 20, 48 << 20], tar), 640 << 10),
    (program("xz-tar", "xz-utils", &["/usr/bin/xz", "-6c", "-T1", "input.tar"], [1 << 20, 10 << 20], tar), 384 << 10),
    (
        program(
            "python-objects",
            "python3-minimal",
            &["/usr/bin/python3", "-IB", "classes.py", "{n}"],
            [60_000, 1_500_000],
            |dir, _| Ok(fs::write(dir.join("classes.py"), include_str!("../../tests/programs/classes.py"))?),
        ),
        20_000,
    ),
    (
        program("perl-text", "perl-base", &["/usr/bin/perl", "words.pl", "text"], [256 << 10, 4 << 20], |dir, n| {
            fs::write(dir.join("words.pl"), include_str!("../../tests/programs/words.pl"))?;
            Ok(inputs::text(&dir.join("text"), n)?)
        }),
        160 << 10,
    ),
    (
        Program {
            stdin: Some("script.sql"),
            ..program("sqlite-memory", "sqlite3", &["/usr/bin/sqlite3", ":memory:"], [20_000, 300_000], |dir, n| {
                Ok(inputs::sql(&dir.join("script.sql"), n)?)
            })
        },
        8_000,
    ),
    (
        program("bc-pi", "bc", &["/usr/bin/bc", "-lq", "size.bc", "pi.bc"], [1000, 3000], |dir, n| {
            fs::write(dir.join("size.bc"), format!("n = {n}\n"))?;
            Ok(fs::write(dir.join("pi.bc"), include_str!("../../tests/programs/pi.bc"))?)
        }),
        500,
    ),
    (
        program("cc1-large", "cpp", &["cc1", "-quiet", "-O2", "big.c", "-o", "big.s"], [500, 8_000], |dir, n| {
            Ok(inputs::c_source(&dir.join("big.c"), n)?)
        }),
        120,
    ),
    (
        program("vector-loops", "gcc", &["./vectors", "{n}"], [20_000, 1_200_000], |dir, _| {
            compile(&["gcc", "-O2"], include_str!("../../tests/programs/vectors.c"), &dir.join("vectors"))
        }),
        15_000,
    ),
    (
        program("chaser", "gcc", &["./chaser", "{n}"], [2, 30], |dir, _| {
            compile(&["gcc", "-O2"], include_str!("../../tests/programs/chaser.c"), &dir.join("chaser"))
        }),
        5,
    ),
];

/// Programs that do almost nothing: what is measured is the start.
const START: &[Program] = &[
    program("true", "coreutils", &["/bin/true"], [0, 0], nothing),
    program("ls-empty", "coreutils", &["/bin/ls"], [0, 0], nothing),
    program("bash-empty", "bash", &["/bin/bash", "-c", ":"], [0, 0], nothing),
    program("python-empty", "python3-minimal", &["/usr/bin/python3", "-c", "pass"], [0, 0], nothing),
    program("cc1-small", "cpp", &["cc1", "-quiet", "-O2", "big.c", "-o", "big.s"], [50, 50], |dir, n| {
        Ok(inputs::c_source(&dir.join("big.c"), n)?)
    }),
];

/// Programs that make many calls and many processes, and compute little.
const CALLS: &[Program] = &[
    program(
        "find-tree",
        "findutils",
        &["/usr/bin/find", "tree/", "-newer", "/nowhere/none", "-o", "-size", "+1k"],
        [1, 2],
        usr,
    ),
    program("tar-pipe", "tar", &["/bin/sh", "-c", "tar -C tree/ -cf - . | cat >/dev/null"], [1, 2], usr),
    program("git-status", "git", &["/usr/bin/git", "-C", "repository", "status", "--short"], [300, 8_000], |dir, n| {
        let script = format!(
            "git init -q repository && cd repository && seq {n} | split -l 1 -a 4 && git add . && \
             git -c user.name=x -c user.email=x@x commit -qm x && touch *"
        );
        let output = run(Command::new("sh").args(["-c", &script]).current_dir(dir))?;
        ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }),
    program(
        "bash-children",
        "bash",
        &["/bin/bash", "-c", "for ((i = 0; i < {n}; i++)); do /bin/true; done"],
        [20, 200],
        nothing,
    ),
    program(
        "python-unittest",
        "python3",
        &["/usr/bin/python3", "-m", "unittest", "-q", "tests"],
        [20, 200],
        |dir, n| {
            let tests = format!(
                "import json, os, unittest\n\
             def test(n):\n    \
                 def one(self):\n        \
                     with open(f'file{{n}}', 'w') as f: json.dump({{'n': n, 'l': list(range(500))}}, f)\n        \
                     with open(f'file{{n}}') as f: self.assertEqual(json.load(f)['n'], n)\n        \
                     os.unlink(f'file{{n}}')\n    \
                 return one\n\
             Tests = type('Tests', (unittest.TestCase,), {{f'test_{{n}}': test(n) for n in range({n})}})\n"
            );
            Ok(fs::write(dir.join("tests.py"), tests)?)
        },
    ),
];

/// Longer than the others, with processes and code that is made as the program runs: a build, the first 10 s of virtual machines, a large file's
/// compilation.
const LONG: &[Program] = &[
    program("build-100", "gcc", &["/usr/bin/make", "-s"], [5, 100], |dir, n| {
        for number in 0..n {
            inputs::c_source(&dir.join(format!("f{number}.c")), LINES_OF_A_FILE)?;
        }
        Ok(fs::write(dir.join("Makefile"), MAKEFILE)?)
    }),
    program(
        "java-10s",
        "default-jdk-headless",
        &["/usr/bin/java", "-cp", ".", "Compiled", "{n}"],
        [2_000, 2_000_000],
        |dir, _| {
            let source = source_tree().join("tests/programs/Compiled.java");
            let output = run(Command::new("/usr/bin/javac").args(["-d", "."]).arg(source).current_dir(dir))?;
            ensure!(output.status.success(), "javac: {}", String::from_utf8_lossy(&output.stderr));
            Ok(())
        },
    ),
    program("node-10s", "nodejs", &["/usr/bin/node", "work.js", "{n}"], [50, 12_000], |dir, _| {
        Ok(fs::write(dir.join("work.js"), include_str!("../programs/work.js"))?)
    }),
    program("cc1-24000", "cpp", &["cc1", "-quiet", "-O2", "big.c", "-o", "big.s"], [500, 24_000], |dir, n| {
        Ok(inputs::c_source(&dir.join("big.c"), n)?)
    }),
];

/// Lines of a file of the build, about.
const LINES_OF_A_FILE: u64 = 50;
/// Compiles each of them by a process of its own: a shell, gcc, cc1 and as.
const MAKEFILE: &str = "all: $(patsubst %.c,%.o,$(wildcard *.c))\n%.o: %.c\n\tgcc -O2 -c $<\n";

/// All workloads, those with threads once for each of these numbers of threads; those of SPEC CPU where `$SPEC_DIR` is
/// set.
///
/// # Errors
/// `$SPEC_DIR` is set, but there are no runs in it.
pub fn workloads(inputs: Inputs, threads: &[u32]) -> Result<Vec<Workload>> {
    let scale = if inputs == Inputs::Full { Scale::Full } else { Scale::Small };
    let workload = |group, program: Program| Workload {
        name: program.name.to_owned(),
        group,
        has_threads: false,
        job: Box::new(move |dir| program.job(dir, scale)),
        options: program.options,
    };
    if inputs == Inputs::Peers {
        let sized = |&(program, size): &(Program, u64)| workload("single", Program { sizes: [size; 2], ..program });
        return Ok(SINGLE.iter().map(sized).collect());
    }
    let mut all: Vec<Workload> = SINGLE.iter().map(|(program, _)| workload("single", *program)).collect();
    all.extend(PROGRAMS.iter().map(|program| workload("programs", *program)));
    all.extend(START.iter().map(|program| workload("start", *program)));
    all.extend(CALLS.iter().map(|program| workload("calls", *program)));
    all.extend(LONG.iter().map(|program| workload("long", *program)));
    for program in PARALLEL {
        all.extend(threads.iter().map(|&threads| Workload {
            name: format!("{}-{threads}", program.name),
            group: "parallel",
            has_threads: threads > 1,
            job: Box::new(move |dir| program.job_with_threads(dir, scale, threads)),
            options: program.options,
        }));
    }
    for kernel in KERNELS {
        all.extend(threads.iter().map(|&threads| kernel.workload(scale, threads)));
    }
    if let Some(folder) = std::env::var_os("SPEC_DIR") {
        all.extend(spec::workloads(Path::new(&folder))?);
    }
    Ok(all)
}

/// A program of `tests/programs/threads`.
#[derive(Clone, Copy)]
struct Kernel {
    /// `parallel` for what programs do, `sharing` for the worst that they can do.
    group: &'static str,
    /// Its name there.
    name: &'static str,
    /// Its arguments at [`Scale::Small`] and [`Scale::Full`]; `{t}` stands for the number of threads.
    args: [&'static str; 2],
}

/// Computations in the style of SPLASH, 1 to 5 s long at their full size, and the worst cases.
const KERNELS: [Kernel; 7] = [
    Kernel { group: "parallel", name: "kernel_fft", args: ["{t} 512", "{t} 2048"] },
    Kernel { group: "parallel", name: "kernel_lu", args: ["{t} 384", "{t} 1536"] },
    Kernel { group: "parallel", name: "kernel_radix", args: ["{t} 2000000", "{t} 20000000"] },
    Kernel { group: "parallel", name: "kernel_ocean", args: ["{t} 258 200", "{t} 1026 300"] },
    Kernel { group: "parallel", name: "kernel_barnes", args: ["{t} 5000 3", "{t} 20000 12"] },
    Kernel { group: "sharing", name: "lock_ping_pong", args: ["{t} 1000000", "{t} 20000000"] },
    Kernel { group: "sharing", name: "false_sharing", args: ["5000000 {t}", "100000000 {t}"] },
];

impl Kernel {
    fn workload(self, scale: Scale, threads: u32) -> Workload {
        let args = self.args[usize::from(scale == Scale::Full)].replace("{t}", &threads.to_string());
        let prepare = move |dir: &Path| {
            let programs = threaded::programs()?;
            let program = programs.iter().find(|program| program.name == self.name);
            let program = program.with_context(|| format!("there is no program {}", self.name))?.build("O2", dir)?;
            let command = std::iter::once(program.to_string_lossy().into_owned());
            Ok(Job::new(dir, command.chain(args.split(' ').map(ToOwned::to_owned))))
        };
        let name = format!("{}-{threads}", self.name.trim_start_matches("kernel_"));
        Workload { name, group: self.group, has_threads: threads > 1, job: Box::new(prepare), options: &[] }
    }
}

/// A tree of files: of /usr/share, or of its documentation alone.
fn usr(dir: &Path, size: u64) -> Result<()> {
    let tree = if size > 1 { "/usr/share" } else { "/usr/share/doc" };
    Ok(std::os::unix::fs::symlink(tree, dir.join("tree"))?)
}

fn nothing(_: &Path, _: u64) -> Result<()> {
    Ok(())
}

/// The first `bytes` bytes of a tar of /usr/lib, sorted by name.
fn tar(dir: &Path, bytes: u64) -> Result<()> {
    let script = format!("tar --sort=name -C / -cf - usr/lib 2>/dev/null | head -c {bytes} > input.tar");
    let output = run(Command::new("sh").args(["-c", &script]).current_dir(dir))?;
    let size = fs::metadata(dir.join("input.tar")).context("tar of /usr/lib")?.len();
    ensure!(output.status.success() && size == bytes, "/usr/lib has less than {bytes} bytes");
    Ok(())
}
