//! Records programs and replays them exactly.

mod args;
mod at;
mod check;
mod code;
mod core;
mod deadlocks;
mod debug;
mod differences;
mod doctor;
mod dump;
mod encrypted;
mod ending;
mod expand;
mod failure;
mod find_log;
mod generate;
mod handled;
mod hits;
mod index;
mod info;
mod last_write;
mod light;
mod ls;
mod memcheck;
mod new_file;
mod next;
mod number;
mod order;
mod pack;
mod processes;
mod ps;
mod races;
mod record;
mod record_json;
mod recordings;
mod replay;
mod rm;
mod slice;
mod stats;
mod syscalls;
mod temporary;
mod terminal;
mod why;

use args::{Cli, Command};
use clap::Parser;
use failure::{EXIT_USAGE, Failure, complain};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Where not even that can be printed, the exit status has to do.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(usage_code()) } else { ExitCode::SUCCESS };
        }
    };
    let done = |()| ExitCode::SUCCESS;
    let result: Result<ExitCode, Failure> = match &cli.command {
        Command::Record(args) => {
            return record::record(args).unwrap_or_else(|error| {
                complain(&error);
                ExitCode::from(error.exit_code())
            });
        }
        Command::Replay(args) => replay::replay(args),
        Command::Info(args) => info::info(args).map(done),
        Command::Expand(args) => expand::run(args),
        Command::Dump(args) => dump::dump(args).map(done),
        Command::Code(args) => code::code(args).map(done),
        Command::At(args) => at::at(args).map(done),
        Command::Debug(args) => debug::debug(args),
        Command::Hits(args) => hits::hits(args).map(done),
        Command::LastWrite(args) => last_write::last_write(args).map(done),
        Command::Slice(args) => slice::slice(args).map(done),
        Command::Why(args) => why::why(args).map(done),
        Command::Memcheck(args) => memcheck::memcheck(args),
        Command::Races(args) => races::races(args).map(done),
        Command::Deadlocks(args) => deadlocks::deadlocks(args).map(done),
        Command::Stats(args) => stats::stats(args).map(done),
        Command::Diff(args) => differences::diff(args).map(done),
        Command::Delta(args) => differences::delta(args).map(done),
        Command::Window(args) => differences::window(args).map(done),
        Command::Syscalls(args) => syscalls::syscalls(args).map(done),
        Command::Core(args) => core::core(args).map(done),
        Command::Check(args) => check::check(args),
        Command::Order(args) => order::order(args),
        Command::Ps(args) => ps::ps(args).map(done),
        Command::Ls(args) => ls::ls(args).map(done),
        Command::Rm(args) => rm::rm(args),
        Command::Pack(args) => pack::pack(args).map(done),
        Command::Unpack(args) => pack::unpack(args).map(done),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Generate(args) => generate::generate(args).map(done),
    };
    result.unwrap_or_else(|failure| failure.report())
}

/// The exit status for wrong use: `record` passes its program's on, so its own must be one that programs do not use.
fn usage_code() -> u8 {
    if std::env::args_os().nth(1).is_some_and(|command| command == "record") { record::EXIT_FAILED } else { EXIT_USAGE }
}
