//! The real programs that are recorded in tests and measured by `spec-harness`, as a table.

use crate::bugnet::{Job, run};
use crate::inputs;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// How much work a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Some 40 million instructions, for every test run.
    Small,
    /// What a user would call a real input.
    Full,
}

/// A program with its input.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Name of the test and of the line in tables.
    pub name: &'static str,
    /// Debian package that has it.
    pub package: &'static str,
    /// Program and arguments; `{n}` stands for the size, `{t}` for the number of threads, and the program `cc1` for gcc's
    /// own compiler.
    pub command: &'static [&'static str],
    /// File for standard input.
    pub stdin: Option<&'static str>,
    /// Sizes for [`Scale::Small`] and [`Scale::Full`], in units of its own.
    pub sizes: [u64; 2],
    /// Puts its input files of a size into a folder.
    pub prepare: fn(&Path, u64) -> Result<()>,
    /// Further arguments for `bugnet record`.
    pub options: &'static [&'static str],
}

/// Shorthand of the table: a program whose input is prepared by `prepare`.
pub const fn program(
    name: &'static str,
    package: &'static str,
    command: &'static [&'static str],
    sizes: [u64; 2],
    prepare: fn(&Path, u64) -> Result<()>,
) -> Program {
    Program { name, package, command, stdin: None, sizes, prepare, options: &[] }
}

/// Shows SHA-NI and AES-NI, without which vector code does the work.
const CRYPTO: &[&str] = &["--cpu", "host"];
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const IV: &str = "101112131415161718191a1b1c1d1e1f";
const AES: &[&str] =
    &["/usr/bin/openssl", "enc", "-aes-256-cbc", "-K", KEY, "-iv", IV, "-in", "text", "-out", "text.enc"];
const SHA256: &[&str] = &["/usr/bin/openssl", "dgst", "-sha256", "text"];

/// All programs; each takes one thread but for `qemu`, which has a second one that waits.
pub const PROGRAMS: &[Program] = &[
    program("ls", "coreutils", &["/bin/ls", "-lR", "tree/"], [0, 1], tree),
    program("cat", "coreutils", &["/bin/cat", "text"], [4 << 20, 64 << 20], text),
    program("sort", "coreutils", &["/usr/bin/sort", "--parallel=1", "-S", "200M", "lines"], [25_000, 1_000_000], lines),
    program("gzip", "gzip", &["/bin/gzip", "-9nc", "text"], [96 << 10, 16 << 20], text),
    program("gunzip", "gzip", &["/bin/gzip", "-dc", "text.gz"], [768 << 10, 64 << 20], gzipped),
    program("bzip2", "bzip2", &["/bin/bzip2", "-9c", "text"], [96 << 10, 16 << 20], text),
    program("xz", "xz-utils", &["/usr/bin/xz", "-6c", "-T1", "text"], [24 << 10, 4 << 20], text),
    program(
        "zstd",
        "zstd",
        &["/usr/bin/zstd", "-q", "-c", "-9", "--single-thread", "--no-asyncio", "text"],
        [128 << 10, 32 << 20],
        text,
    ),
    program("bc", "bc", &["/usr/bin/bc", "-lq", "size.bc", "pi.bc"], [250, 1000], bc),
    program("awk", "mawk", &["/usr/bin/mawk", "-f", "words.awk", "text"], [128 << 10, 16 << 20], awk),
    program("sed", "sed", &["/bin/sed", "-E", "-f", "edit.sed", "text"], [64 << 10, 4 << 20], sed),
    program("perl", "perl-base", &["/usr/bin/perl", "words.pl", "text"], [12 << 10, 2 << 20], perl),
    program(
        "python-json-re",
        "python3-minimal",
        &["/usr/bin/python3", "-IB", "json_and_re.py", "items.json"],
        [500, 100_000],
        python_json,
    ),
    program(
        "python-big-numbers",
        "python3-minimal",
        &["/usr/bin/python3", "-IB", "big_numbers.py", "{n}"],
        [2_000, 30_000],
        |dir, _| script(dir, "big_numbers.py", include_str!("../programs/big_numbers.py")),
    ),
    program(
        "python-classes",
        "python3-minimal",
        &["/usr/bin/python3", "-IB", "classes.py", "{n}"],
        [1_000, 400_000],
        |dir, _| script(dir, "classes.py", include_str!("../programs/classes.py")),
    ),
    Program {
        stdin: Some("script.sql"),
        ..program("sqlite", "sqlite3", &["/usr/bin/sqlite3", "test.db"], [1_000, 100_000], |dir, n| {
            Ok(inputs::sql(&dir.join("script.sql"), n)?)
        })
    },
    program("cc1", "cpp", &["cc1", "-quiet", "-O2", "big.c", "-o", "big.s"], [50, 5_000], |dir, n| {
        Ok(inputs::c_source(&dir.join("big.c"), n)?)
    }),
    Program { options: CRYPTO, ..program("openssl-sha256", "openssl", SHA256, [8 << 20, 64 << 20], text) },
    Program { options: CRYPTO, ..program("openssl-aes", "openssl", AES, [8 << 20, 64 << 20], text) },
    program("openssl-sha256-avx2", "openssl", SHA256, [8 << 20, 64 << 20], text),
    program("openssl-aes-vectors", "openssl", AES, [8 << 20, 64 << 20], text),
    program("bash", "bash", &["/bin/bash", "loop.sh", "{n}"], [200, 50_000], |dir, _| {
        script(dir, "loop.sh", include_str!("../programs/loop.sh"))
    }),
    program("lua", "lua5.4", &["/usr/bin/lua5.4", "tables.lua", "{n}"], [1_500, 200_000], |dir, _| {
        script(dir, "tables.lua", include_str!("../programs/tables.lua"))
    }),
    program("luajit", "luajit", &["/usr/bin/luajit", "generated.lua", "{n}"], [20_000, 20_000_000], |dir, _| {
        script(dir, "generated.lua", include_str!("../programs/generated.lua"))
    }),
    program(
        "php-jit",
        "php-cli",
        &[
            "/usr/bin/php",
            "-n",
            "-d",
            "zend_extension=opcache",
            "-d",
            "opcache.enable_cli=1",
            "-d",
            "opcache.jit_buffer_size=8M",
            "-d",
            "opcache.jit=tracing",
            "generated.php",
            "{n}",
        ],
        [20_000, 20_000_000],
        |dir, _| script(dir, "generated.php", include_str!("../programs/generated.php")),
    ),
    program(
        "python-callbacks",
        "python3",
        &["/usr/bin/python3", "-IB", "callbacks.py", "{n}"],
        [5, 5_000],
        |dir, _| script(dir, "callbacks.py", include_str!("../programs/callbacks.py")),
    ),
    program(
        "grep-pcre",
        "grep",
        &["/bin/grep", "-cP", r"(\w)\w*\1 (?=[a-m])|(\d)\d*\2", "text"],
        [96 << 10, 16 << 20],
        text,
    ),
    program("qemu", "qemu-user", &["/usr/bin/qemu-x86_64", "./static", "{n}"], [100, 100_000], |dir, _| {
        compile(&["musl-gcc", "-static", "-O2"], include_str!("../programs/static.c"), &dir.join("static"))
    }),
    program("static-musl", "musl-tools", &["./static", "{n}"], [30_000, 200_000], |dir, _| {
        compile(&["musl-gcc", "-static", "-O2"], include_str!("../programs/static.c"), &dir.join("static"))
    }),
    program("static-glibc", "libc6-dev", &["./static", "{n}"], [30_000, 200_000], |dir, _| {
        compile(&["gcc", "-static", "-O2"], include_str!("../programs/static.c"), &dir.join("static"))
    }),
    program("non-pie", "gcc", &["./static", "{n}"], [30_000, 200_000], |dir, _| {
        compile(&["gcc", "-no-pie", "-O2"], include_str!("../programs/static.c"), &dir.join("static"))
    }),
    program("vdso-clocks", "gcc", &["./clocks", "{n}"], [2_000, 200_000], |dir, _| {
        compile(&["gcc", "-O2"], include_str!("../programs/clocks.c"), &dir.join("clocks"))
    }),
    program("pointer-chaser", "gcc", &["./chaser", "{n}"], [1, 4], |dir, _| {
        compile(&["gcc", "-O2"], include_str!("../programs/chaser.c"), &dir.join("chaser"))
    }),
    program("vectors", "gcc", &["./vectors", "{n}"], [500, 50_000], |dir, _| {
        compile(&["gcc", "-O2"], include_str!("../programs/vectors.c"), &dir.join("vectors"))
    }),
];

impl Program {
    /// The size at a scale.
    #[must_use]
    pub fn size(&self, scale: Scale) -> u64 {
        match scale {
            Scale::Small => self.sizes[0],
            Scale::Full => self.sizes[1],
        }
    }

    /// Puts the input into `dir` and returns the job that runs there.
    ///
    /// # Errors
    /// The program's package is not installed, or the input cannot be written.
    pub fn job(&self, dir: &Path, scale: Scale) -> Result<Job> {
        self.job_with_threads(dir, scale, 1)
    }

    /// [`Self::job`] with a number of threads, for a program that takes one.
    ///
    /// # Errors
    /// As there.
    pub fn job_with_threads(&self, dir: &Path, scale: Scale, threads: u32) -> Result<Job> {
        let size = self.size(scale);
        let missing = || format!("{} needs a Debian package: apt-get install -y {}", self.name, self.package);
        (self.prepare)(dir, size).with_context(missing)?;
        let filled_in = |arg: &&str| arg.replace("{n}", &size.to_string()).replace("{t}", &threads.to_string());
        let mut command: Vec<String> = self.command.iter().map(filled_in).collect();
        if command[0] == "cc1" {
            let output = run(Command::new("gcc").arg("-print-prog-name=cc1")).with_context(missing)?;
            command[0] = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        }
        ensure!(dir.join(&command[0]).is_file(), "there is no {}; {}", command[0], missing());
        Ok(Job { command, dir: dir.to_owned(), stdin: self.stdin.map(ToOwned::to_owned) })
    }
}

fn script(dir: &Path, name: &str, text: &str) -> Result<()> {
    fs::write(dir.join(name), text).with_context(|| format!("writing {name}"))
}

/// Compiles C source into a program.
///
/// # Errors
/// There is no compiler, or it complains.
pub fn compile(compiler: &[&str], source: &str, program: &Path) -> Result<()> {
    let file = program.with_extension("c");
    fs::write(&file, source)?;
    let output = run(Command::new(compiler[0]).args(&compiler[1..]).arg(&file).arg("-o").arg(program).arg("-lm"))?;
    ensure!(output.status.success(), "compiling {}\n{}", file.display(), crate::bugnet::printed(&output));
    Ok(())
}

/// An installed tree of files, larger with each size.
fn tree(dir: &Path, size: u64) -> Result<()> {
    let tree = ["/usr/share/doc", "/usr/share", "/usr"][size.min(2) as usize];
    Ok(std::os::unix::fs::symlink(tree, dir.join("tree"))?)
}

/// A file `text` of about so many bytes.
pub(crate) fn text(dir: &Path, bytes: u64) -> Result<()> {
    Ok(inputs::text(&dir.join("text"), bytes)?)
}

fn gzipped(dir: &Path, bytes: u64) -> Result<()> {
    text(dir, bytes)?;
    let output = run(Command::new("/bin/gzip").args(["-1n", "text"]).current_dir(dir))?;
    ensure!(output.status.success(), "gzip\n{}", crate::bugnet::printed(&output));
    Ok(())
}

/// A file `lines` of so many lines.
pub(crate) fn lines(dir: &Path, count: u64) -> Result<()> {
    Ok(inputs::lines(&dir.join("lines"), count)?)
}

fn bc(dir: &Path, digits: u64) -> Result<()> {
    script(dir, "size.bc", &format!("n = {digits}\n"))?;
    script(dir, "pi.bc", include_str!("../programs/pi.bc"))
}

fn awk(dir: &Path, bytes: u64) -> Result<()> {
    script(dir, "words.awk", include_str!("../programs/words.awk"))?;
    text(dir, bytes)
}

fn sed(dir: &Path, bytes: u64) -> Result<()> {
    script(dir, "edit.sed", include_str!("../programs/edit.sed"))?;
    text(dir, bytes)
}

fn perl(dir: &Path, bytes: u64) -> Result<()> {
    script(dir, "words.pl", include_str!("../programs/words.pl"))?;
    text(dir, bytes)
}

fn python_json(dir: &Path, count: u64) -> Result<()> {
    script(dir, "json_and_re.py", include_str!("../programs/json_and_re.py"))?;
    Ok(inputs::json(&dir.join("items.json"), count)?)
}
