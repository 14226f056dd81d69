//! Recording where there is little but bugnet: a root folder as in a container that holds a libc, or only a static program.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Workshop, must_pass, printed, run, same_behaviour};
use bugnet_tests::moved::{Moved, copy};
use bugnet_tests::programs::compile;
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, elf};
use std::fs;
use std::path::Path;
use std::process::Command;

/// What glibc's own package has, and where Debian puts it.
const GLIBC: [&str; 3] =
    ["lib/x86_64-linux-gnu/libc.so.6", "lib/x86_64-linux-gnu/libm.so.6", "lib64/ld-linux-x86-64.so.2"];

/// The libraries that an ELF file names.
fn needed(path: &Path) -> Result<Vec<String>> {
    let data = fs::read(path)?;
    let file = ElfFile64::<Endianness>::parse(&*data)?;
    let (endian, header) = (file.endian(), file.elf_header());
    let sections = header.sections(endian, &*data)?;
    let Some((dynamic, strings)) = sections.dynamic(endian, &*data)? else { return Ok(Vec::new()) };
    let strings = sections.strings(endian, &*data, strings)?;
    let names = dynamic.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED);
    names.map(|entry| Ok(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned())).collect()
}

#[test]
fn no_library_but_glibc_is_needed() -> Result<()> {
    let moved = Moved::new("needed")?;
    let mut seen = 0;
    for (folder, count) in [("bin", 1), ("lib/bugnet", 5)] {
        let files = fs::read_dir(moved.folder.join(folder))?.collect::<Result<Vec<_>, _>>()?;
        ensure!(files.len() == count, "{folder} has {} files", files.len());
        for file in files {
            let needed = needed(&file.path())?;
            seen += needed.len();
            for library in needed {
                let glibc = GLIBC.iter().any(|path| Path::new(path).ends_with(&library));
                let known = glibc || library == "libdynamorio.so";
                ensure!(known, "{} needs {library}", file.path().display());
            }
        }
    }
    ensure!(seen > 0, "no file needs any library");
    Ok(())
}

#[test]
fn a_root_with_glibc_and_bugnet_only() -> Result<()> {
    let workshop = Workshop::new("bare-root")?;
    let moved = Moved::new("bare-root")?;
    let root = workshop.folder("root")?;
    for folder in ["bin", "lib"] {
        copy(&moved.folder.join(folder), &root.join(folder))?;
    }
    for path in GLIBC {
        let to = root.join(path);
        fs::create_dir_all(to.parent().context("a file in a folder")?)?;
        fs::copy(Path::new("/").join(path), to).with_context(|| format!("/{path}"))?;
    }
    fs::create_dir(root.join("proc"))?;
    let source = r#"
        #include <stdio.h>
        int main(int count, char **arguments) { printf("%d %s\n", count, arguments[1]); return 7; }
    "#;
    compile(&["gcc", "-O1", "-static"], source, &root.join("program"))?;
    let in_root = |command: &str| {
        let line = format!("mount --rbind /proc '{0}/proc' && exec chroot '{0}' {command}", root.display());
        let mut unshare = Command::new("unshare");
        if !nix::unistd::geteuid().is_root() {
            unshare.args(["--user", "--map-root-user"]);
        }
        unshare.args(["--mount", "sh", "-c", &line]);
        run(&mut unshare)
    };
    let native = in_root("/program argument")?;
    ensure!(native.status.code() == Some(7), "{}", printed(&native));
    same_behaviour(&native, &in_root("/bin/bugnet record --quiet -o /log -- /program argument")?)?;
    must_pass(&["check"], &root.join("log"))?;
    must_pass(&["replay"], &root.join("log"))?;
    workshop.done()
}
