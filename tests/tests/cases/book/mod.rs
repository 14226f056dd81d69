//! The book in `docs/`: each command in it is run, and prints what the book says; each of its links leads somewhere.
//!
//! What is in a block marked `console` is a session: `$` stands before a command, `(gdb)` before what is typed into the gdb that the command before
//! has started, and the other lines are some of those that it prints, in their order (`...` stands for others). A chapter's sessions run one after
//! the other in a folder that holds `docs/examples` and the program of `demo`. Numbers that differ from run to run (process ids, positions, addresses,
//! times, sizes) may differ here, and commands that name such a number get the one of this run.

mod alike;
mod chapter;
mod session;

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::source_tree;
use chapter::Chapter;
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Chapters whose programs have one thread: all is the same where these are captured, and the log is made afterwards.
const LIGHT: [&str; 7] = ["code", "cpp", "crash", "first-session", "python", "rust", "wrong-output"];

fn failed(result: Result<()>) -> Result<(), Failed> {
    result.map_err(|error| format!("{error:#}").into())
}

/// The chapters by the paths of their files, relative to `docs/src`.
fn chapters(source: &Path) -> Result<BTreeMap<PathBuf, Chapter>> {
    let mut chapters = BTreeMap::new();
    for entry in fs::read_dir(source).with_context(|| format!("reading {}", source.display()))? {
        let path = entry?.path();
        let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|extension| extension == "md"))
        else {
            continue;
        };
        chapters.insert(PathBuf::from(name), Chapter::read(&path)?);
    }
    Ok(chapters)
}

/// Each link leads to a chapter, a heading or a file that is there; and each chapter is in the summary.
fn links(source: &Path) -> Result<()> {
    let chapters = chapters(source)?;
    let summary = chapters.get(Path::new("SUMMARY.md")).context("there is no SUMMARY.md")?;
    for (name, chapter) in &chapters {
        ensure!(
            name == Path::new("SUMMARY.md") || summary.links.iter().any(|link| Path::new(link) == name),
            "SUMMARY.md does not name {name:?}"
        );
        for link in chapter.links.iter().filter(|link| !link.contains("://")) {
            let (file, anchor) =
                link.split_once('#').map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
            let file = if file.is_empty() { name.as_path() } else { Path::new(file) };
            ensure!(source.join(file).exists(), "{name:?} has a link to {link}, and there is no such file");
            let Some(anchor) = anchor else { continue };
            let to =
                chapters.get(file).with_context(|| format!("{name:?} has a link to {link}, which is no chapter"))?;
            ensure!(
                to.headings.iter().any(|heading| heading == anchor),
                "{name:?} has a link to {link}: no such heading; there are {:?}",
                to.headings
            );
        }
    }
    Ok(())
}

/// The README's links to the book, too, lead somewhere.
fn readme(source: &Path) -> Result<()> {
    let top = source_tree();
    let readme = Chapter::read(&top.join("README.md"))?;
    for link in readme.links.iter().filter(|link| !link.contains("://") && !link.starts_with('#')) {
        let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
        ensure!(top.join(file).exists(), "README.md has a link to {link}, and there is no such file");
        let Some(anchor) = anchor else { continue };
        ensure!(
            Chapter::read(&top.join(file))?.headings.iter().any(|heading| heading == anchor),
            "README.md has a link to {link}: no such heading"
        );
    }
    ensure!(readme.links.iter().any(|link| top.join(link).starts_with(source)), "README.md does not lead to the book");
    Ok(())
}

/// The tests.
///
/// # Errors
/// What they are made of cannot be read.
pub fn trials() -> Result<Vec<Trial>> {
    let source = source_tree().join("docs/src");
    let mut trials = Vec::new();
    for (name, chapter) in chapters(&source)? {
        if !chapter.sessions.is_empty() {
            let name = name.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if LIGHT.contains(&&*name) {
                let (name, commands) =
                    (format!("{name}-light"), chapter.sessions.iter().map(session::lightly).collect::<Vec<_>>());
                trials.push(Trial::test(format!("chapter_{name}"), move || failed(session::run(&name, &commands))));
            }
            trials.push(Trial::test(format!("chapter_{name}"), move || failed(session::run(&name, &chapter.sessions))));
        }
    }
    ensure!(!trials.is_empty(), "the book has no session");
    let (of_book, of_readme) = (source.clone(), source);
    trials.push(Trial::test("links", move || failed(links(&of_book))));
    trials.push(Trial::test("links_of_readme", move || failed(readme(&of_readme))));
    Ok(trials)
}
