//! `bugnet debug`: gdb on a recorded execution.

mod ctrl_c;
mod serving;
mod sysroot;

use crate::args::DebugArgs;
use crate::ending::Ends;
use crate::failure::{Failure, complain};
use crate::find_log::{find_log_from, tools};
use crate::index;
use crate::processes::meant;
use bugnet_debugger::image::Image;
use bugnet_debugger::{Client, Debuggee, serve};
use bugnet_format::types::ProcessId;
use bugnet_replay::cursor::{Cursor, Seek};
use bugnet_replay::location::{Choice, Location, go};
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tools::Tools;
use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode};
use std::time::Duration;
use sysroot::Sysroot;

/// What gdb does not do with the files of a log.
const STRANGERS: &str = include_str!("strangers.py");
/// The scripts of this system's that gdb takes for the libraries of a log.
const PRINTERS: &str = include_str!("printers.py");
/// gdb's commands for going through time.
const COMMANDS: &str = include_str!("bugnet.py");
/// What gdb's debug adapter needs besides.
const ADAPTER: &str = include_str!("dap.py");
/// How long one look lasts whether gdb has come or gone.
const LOOK: Duration = Duration::from_millis(5);

/// Starts gdb, or waits for one.
pub fn debug(args: &DebugArgs) -> Result<ExitCode, Failure> {
    let log = Log::open_source(find_log_from(&args.log, &args.process, args.at.as_ref())?)?;
    let tools = tools(&args.time)?;
    let pid = meant(&log, &args.process)?;
    if let Some(address) = &args.serve {
        let mut debuggee = open(args, &tools, &log, pid)?;
        return serving::serve_at(address, &mut debuggee).map(|()| ExitCode::SUCCESS);
    }
    let image = Image::of(&log, pid)?;
    let program = image.program.clone();
    let sysroot = Sysroot::of(&log, image)?;
    let socket = sysroot.path("bugnet.socket");
    let listener = UnixListener::bind(&socket).map_err(Failure::system("make a socket for gdb"))?;
    listener.set_nonblocking(true).map_err(Failure::system("make a socket for gdb"))?;
    for (name, text) in
        [("strangers.py", STRANGERS), ("printers.py", PRINTERS), ("bugnet.py", COMMANDS), ("dap.py", ADAPTER)]
    {
        std::fs::write(sysroot.path(name), text).map_err(Failure::system("write gdb's commands"))?;
    }
    let source = |name| format!("source {}", sysroot.path(name).display());
    // Before gdb sees any file of the log's; the first one for a gdb without Python.
    let mut commands = vec!["set auto-load gdb-scripts off".into(), source("strangers.py")];
    commands.extend(sysroot.commands());
    commands.extend([
        "set may-write-registers off".into(),
        "set may-write-memory off".into(),
        "set may-call-functions off".into(),
        // Some answers take a while.
        "set remotetimeout 3600".into(),
    ]);
    commands.push(source("printers.py"));
    commands.extend(sysroot.file(&program).map(|file| format!("file {}", file.display())));
    if args.dap {
        // The editor says when to connect.
        commands.extend([
            source("bugnet.py"),
            format!("python BUGNET = {:?}", socket.display().to_string()),
            source("dap.py"),
            "python \"READY\" in globals() or gdb.execute(\"quit 1\")".into(),
        ]);
    } else {
        commands.extend([format!("target remote {}", socket.display()), source("bugnet.py"), "when".into()]);
    }
    // gdb takes a moment to start, in which the replay goes to where it is to begin.
    let person = ctrl_c::listen()?;
    let mut gdb = Gdb::start(args, &commands)?;
    let mut debuggee = open(args, &tools, &log, pid)?;
    debuggee.asked_by(person);
    let mut has_come = false;
    while let Some(client) = gdb.comes(&listener)? {
        has_come = true;
        serve(&mut debuggee, Client::Unix(client))?;
    }
    if args.dap && !has_come {
        complain(
            &"gdb ended before an editor asked for the recording; a debug adapter takes gdb 14 or newer: --gdb PATH names one",
        );
    }
    gdb.ended()
}

/// The process where gdb is to find it.
fn open<'a>(args: &DebugArgs, tools: &'a Tools, log: &'a Log, pid: ProcessId) -> Result<Debuggee<'a>, Failure> {
    let mut cursor = Cursor::open(tools, log, pid)?;
    index::use_where_needed(tools, log, &mut cursor)?;
    let otherwise = Location::Position(if args.start { Seek::Start } else { Seek::End });
    let at = args.at.as_ref().unwrap_or(&otherwise);
    let mut symbols = Symbolizer::new(log, pid)?;
    let arrival = go(&mut cursor, &mut symbols, at, Choice { thread: args.thread, is_first: false })?;
    arrival.notes.iter().for_each(|note| complain(note));
    let mut debuggee = Debuggee::new(tools, log, cursor)?;
    if let Some(thread) = args.thread {
        debuggee.select(thread)?;
    }
    Ok(debuggee)
}

/// A running gdb; killed when dropped.
struct Gdb {
    child: Child,
    /// Where the system can hold it.
    _ends: Option<Ends>,
}

impl Gdb {
    fn start(args: &DebugArgs, commands: &[String]) -> Result<Self, Failure> {
        let mut command = Command::new(&args.gdb);
        command.arg("-q");
        if args.dap {
            command.args(["-i", "dap"]);
        }
        commands.iter().for_each(|line| {
            command.args(["-ex", line]);
        });
        command.args(&args.gdb_args);
        // Ctrl-C is for gdb, and here only tells of itself.
        let own = [(libc::SIGINT, ctrl_c::on_interrupt as *const () as usize), (libc::SIGQUIT, libc::SIG_IGN)];
        // SAFETY: one is ignored, and the other one's handler may be called at any time.
        let before = own.map(|(signal, handler)| (signal, unsafe { libc::signal(signal, handler) }));
        let give_back = move || {
            for (signal, handler) in before {
                // SAFETY: a system call on numbers, which gives back what was there before.
                unsafe { libc::signal(signal, handler) };
            }
            Ok(())
        };
        // SAFETY: `give_back` runs in the child between fork and exec. It makes system calls, allocates nothing and cannot panic.
        unsafe { command.pre_exec(give_back) };
        let child = command.spawn().map_err(|source| match source.kind() {
            ErrorKind::NotFound => Failure::Usage(format!(
                "there is no {}; install gdb (apt-get install gdb), or name one with --gdb",
                args.gdb.display()
            )),
            _ => Failure::System { what: format!("start {}", args.gdb.display()), source },
        })?;
        let ends = Ends::program(&child);
        Ok(Self { child, _ends: ends })
    }

    /// Waits until gdb connects; none if it ends first.
    fn comes(&mut self, listener: &UnixListener) -> Result<Option<UnixStream>, Failure> {
        loop {
            match listener.accept() {
                Ok((client, _)) => {
                    client.set_nonblocking(false).map_err(Failure::system("talk with gdb"))?;
                    return Ok(Some(client));
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(Failure::system("talk with gdb")(e)),
            }
            if self.child.try_wait().map_err(Failure::system("wait for gdb"))?.is_some() {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Its exit status.
    fn ended(mut self) -> Result<ExitCode, Failure> {
        let status = self.child.wait().map_err(Failure::system("wait for gdb"))?;
        let killed = || status.signal().map(|signal| 128 + signal);
        Ok(ExitCode::from(status.code().or_else(killed).unwrap_or_default() as u8))
    }
}

impl Drop for Gdb {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
