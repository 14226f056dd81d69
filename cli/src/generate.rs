//! `bugnet generate`: man pages and shell completions, made of the declaration of the command line. `scripts/dist.sh` runs it.

use crate::args::{Cli, GenerateArgs};
use crate::failure::Failure;
use clap::CommandFactory;
use clap_complete::Shell;
use std::fs::create_dir_all;
use std::io::Result;
use std::path::Path;

/// The shells that are served.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes them below a folder, where packages have them.
pub fn generate(args: &GenerateArgs) -> std::result::Result<(), Failure> {
    let what = || format!("write below {}", args.folder.display());
    write(&args.folder).map_err(|source| Failure::System { what: what(), source })
}

fn write(folder: &Path) -> Result<()> {
    let pages = folder.join("man/man1");
    create_dir_all(&pages)?;
    clap_mangen::generate_to(Cli::command(), pages)?;
    let completions = folder.join("completions");
    create_dir_all(&completions)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut Cli::command(), "bugnet", &completions)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_command_has_a_page_and_is_completed() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let completions = ["bugnet.bash", "_bugnet", "bugnet.fish"].map(|name| read(&format!("completions/{name}")));
        assert!(read("man/man1/bugnet.1").contains("bugnet"));
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let page = read(&format!("man/man1/bugnet-{name}.1"));
            assert!(page.contains("Exit status"), "{name}: {page}");
            assert!(completions.iter().all(|text| text.contains(name)), "{name}");
        }
        assert!(!folder.path().join("man/man1/bugnet-generate.1").exists());
    }
}
