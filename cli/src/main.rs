//! Records programs and replays them exactly.

mod args;
mod number;
mod record;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

/// Wrong use of the command line.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Not even a message can be printed if this fails.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(usage_code()) } else { ExitCode::SUCCESS };
        }
    };
    match cli.command {
        Command::Record(args) => record::record(&args).unwrap_or_else(|error| {
            eprintln!("bugnet: {error}");
            ExitCode::from(error.exit_code())
        }),
    }
}

/// `record` passes its program's exit status on, so its own must be one that programs do not use.
fn usage_code() -> u8 {
    if std::env::args_os().nth(1).is_some_and(|command| command == "record") { record::EXIT_FAILED } else { EXIT_USAGE }
}
