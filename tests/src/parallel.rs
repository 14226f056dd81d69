//! Real programs with threads, as a table: recorded in tests, and measured by `spec-harness` with 1, 2 and 4 threads.

use crate::bugnet::{install, run, source_tree};
use crate::programs::{Program, lines, program, text};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Programs that take a number of threads.
pub const PARALLEL: &[Program] = &[
    program("pigz", "pigz", &["/usr/bin/pigz", "-p", "{t}", "-b", "128", "-nc", "text"], [300 << 10, 64 << 20], text),
    program("pbzip2", "pbzip2", &["/usr/bin/pbzip2", "-p{t}", "-b1", "-1", "-c", "text"], [240 << 10, 24 << 20], text),
    program(
        "xz-threads",
        "xz-utils",
        &["/usr/bin/xz", "-T{t}", "--block-size=48KiB", "-0", "-c", "text"],
        [96 << 10, 24 << 20],
        text,
    ),
    program("zstd-threads", "zstd", &["/usr/bin/zstd", "-T{t}", "-q", "-c", "-9", "text"], [256 << 10, 48 << 20], text),
    program(
        "sort-parallel",
        "coreutils",
        &["/usr/bin/sort", "--parallel={t}", "-S", "200M", "lines"],
        // With fewer lines, sort starts no thread.
        [140_000, 1_500_000],
        lines,
    ),
    program(
        "x264",
        "x264",
        // It always prints how fast it was.
        &[
            "/bin/sh",
            "-c",
            "exec /usr/bin/x264 --quiet --threads {t} --preset veryfast -o clip.264 clip.y4m 2>/dev/null",
        ],
        [2, 600],
        clip,
    ),
    program("rayon", "gcc", &["./parallel_words", "{t}", "{n}"], [2_000, 2_000_000], |dir, _| {
        let built = crate::bugnet::built("parallel_words");
        install(&built, &dir.join("parallel_words"))
    }),
    program("go", "golang-go", &["./sums", "{t}", "{n}"], [400, 20_000], |dir, _| {
        let source = source_tree().join("tests/programs/parallel/sums.go");
        let mut command = Command::new("/usr/bin/go");
        command.args(["build", "-o", "sums"]).arg(source).env("GOCACHE", dir.join("cache")).env("GO111MODULE", "off");
        built(command.current_dir(dir))
    }),
];

/// Programs that are recorded in long runs only.
pub const PARALLEL_LONG: &[Program] = &[
    program(
        "ffmpeg",
        "ffmpeg",
        &["/usr/bin/ffmpeg", "-v", "error", "-i", "clip.y4m", "-threads", "{t}", "-c:v", "mpeg4", "clip.avi"],
        [10, 100],
        clip,
    ),
    program(
        "java",
        "default-jdk-headless",
        &["/usr/bin/java", "-Xmx64m", "-cp", ".", "Sums", "{t}", "{n}"],
        [20_000, 2_000_000],
        |dir, _| {
            let source = source_tree().join("tests/programs/parallel/Sums.java");
            built(Command::new("/usr/bin/javac").args(["-d", "."]).arg(source).current_dir(dir))
        },
    ),
];

fn built(command: &mut Command) -> Result<()> {
    let output = run(command)?;
    ensure!(output.status.success(), "{}", crate::bugnet::printed(&output));
    Ok(())
}

/// A film of so many pictures: a square wanders over stripes.
fn clip(dir: &Path, pictures: u64) -> Result<()> {
    const WIDTH: usize = 176;
    const HEIGHT: usize = 144;
    let mut film = format!("YUV4MPEG2 W{WIDTH} H{HEIGHT} F25:1 Ip A1:1 C420jpeg\n").into_bytes();
    for picture in 0..usize::try_from(pictures)? {
        film.extend_from_slice(b"FRAME\n");
        let square = |at: usize, size: usize| (3 * picture % size..3 * picture % size + 32).contains(&at);
        for y in 0..HEIGHT {
            let bright =
                |x: usize| if square(x, WIDTH) && square(y, HEIGHT) { 220 } else { (x * y / 8 + 2 * picture) as u8 };
            film.extend((0..WIDTH).map(bright));
        }
        film.extend((0..WIDTH * HEIGHT / 2).map(|at| (at / 8 + picture) as u8));
    }
    fs::write(dir.join("clip.y4m"), film).context("writing clip.y4m")
}
