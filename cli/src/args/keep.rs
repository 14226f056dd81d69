//! The commands that keep, list, send and throw away recordings.

use super::LogArg;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// List the recordings in the default folder, the newest first
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bugnet ls\n  \
        bugnet ls --json | jq -r '.recordings[] | select(.ending.how == \"killed\") | .path'\n\n\
        * marks the latest, which the other commands take when they are given none.\n\n\
        Exit status:\n  \
        0  done, also where there are none\n  \
        4  it cannot be done here: the system refused something")]
pub struct LsArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Remove recordings
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bugnet rm 20261122-190500.123-gzip     removes this one\n  \
        bugnet rm --older-than 7d              removes those that began more than 7 days ago\n  \
        bugnet rm --keep-last 10 --dry-run     says what it would remove but the newest 10\n\n\
        What is still being recorded, or in use, is not removed, nor is a folder that holds anything that bugnet\n\
        did not put there. BUGNET_MAX_SIZE=20G lets `bugnet record` remove old recordings by itself.\n\n\
        Exit status:\n  \
        0  all is removed\n  \
        2  wrong use: an unknown option, or nothing to remove is named\n  \
        3  what is named is not there, or no recording\n  \
        4  it is in use, or the system refused something")]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct RmArgs {
    /// Names of recordings in the default folder, or paths of recordings
    #[arg(value_name = "RECORDING", group = "what", conflicts_with_all = ["older_than", "keep_last", "all"])]
    pub recordings: Vec<PathBuf>,
    /// All in the default folder that began longer ago than this: 90min, 12h, 7d
    #[arg(long, value_name = "TIME", group = "what", value_parser = humantime::parse_duration)]
    pub older_than: Option<Duration>,
    /// All in the default folder but the newest N
    #[arg(long, value_name = "N", group = "what")]
    pub keep_last: Option<usize>,
    /// All in the default folder
    #[arg(long, group = "what", conflicts_with_all = ["older_than", "keep_last"])]
    pub all: bool,
    /// Say what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// Pack a recording into one file, with all that it takes to look into it elsewhere
///
/// The file holds the log, and ELF and debug files of this machine of which the log has no copy. All commands take it in place of a
/// folder, as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bugnet pack -o crash.bugnet                            packs the latest recording\n  \
        bugnet pack --sources -o crash.bugnet /tmp/log\n  \
        bugnet pack --encrypt-to age1... -o crash.bugnet       for who has the key to open it\n  \
        bugnet info crash.bugnet                               works on the file\n\n\
        A log holds what the program read: passwords and keys, too. Encrypt what you send.\n\n\
        Exit status:\n  \
        0  done\n  \
        2  wrong use: an unknown option, no such recipient, or the file is there already\n  \
        3  no log, a damaged one, or one of another version\n  \
        4  it cannot be done here: it is still being recorded, or the system refused something")]
pub struct PackArgs {
    #[command(flatten)]
    pub log: LogArg,
    /// The file to make
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Add the source files that debug information names and that are here
    #[arg(long)]
    pub sources: bool,
    /// Encrypt the file: to an age recipient, a public key of ssh, or a file of such, one a line. Can be given several times
    #[arg(long, value_name = "RECIPIENT")]
    pub encrypt_to: Vec<String>,
    /// Do not say what was packed
    #[arg(short, long)]
    pub quiet: bool,
}

/// Unpack a file that `bugnet pack` has made into the folder of a log
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bugnet unpack crash.bugnet -o crash\n\n\
        There is seldom need to: all commands take the file as it is.\n\n\
        Exit status:\n  \
        0  done\n  \
        2  wrong use: an unknown option, or the folder is there and not empty\n  \
        3  no such file, or a damaged one\n  \
        4  it cannot be done here: no identity opens it, or the system refused something")]
pub struct UnpackArgs {
    #[command(flatten)]
    pub log: LogArg,
    /// The folder, which must be new or empty
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

/// Say what of this machine bugnet can use, and what to do where it cannot
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bugnet doctor\n\n\
        It records /bin/true, replays that recording, and looks at the kernel, the processor, the disk, limits and gdb.\n\n\
        Exit status:\n  \
        0  all commands work here; notes say where one is slower, or does less\n  \
        4  one does not work here, or cannot be tried")]
pub struct DoctorArgs {
    /// The gdb that `bugnet debug` is to use
    #[arg(long, value_name = "PATH", default_value = "gdb")]
    pub gdb: PathBuf,
    /// Print one JSON list
    #[arg(long)]
    pub json: bool,
}

/// Write man pages and shell completions below a folder
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
