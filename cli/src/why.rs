//! `bugnet why`: why a run failed.

use crate::args::{LogArg, WhyArgs};
use crate::failure::Failure;
use crate::find_log::{find_log, find_log_from, tools_that_show};
use crate::index;
use crate::light::Light;
use crate::new_file::{check_page, make};
use crate::next::quoted;
use crate::processes::{end, failed_first, meant};
use crate::terminal::{one_line, output};
use bugnet_analyses::why::{Options, Shown, Told, html, why as find};
use bugnet_format::light::LIGHT_FOLDER;
use bugnet_format::types::ProcessId;
use bugnet_replay::cursor::Cursor;
use bugnet_replay::log::Log;
use bugnet_replay::symbols::Symbolizer;
use bugnet_replay::tree::{self, Process};
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;

/// Finds it out, and shows it.
pub fn why(args: &WhyArgs) -> Result<(), Failure> {
    args.html.as_deref().map_or(Ok(()), check_page)?;
    let told = told(args)?;
    let log = Log::open_source(find_log_from(&args.log, &args.process, None)?)?;
    let good = args.good.iter().map(|path| open_good(path, args)).collect::<Result<Vec<Log>, _>>()?;
    let tools = tools_that_show(&args.time)?;
    let mut cursor = Cursor::open(&tools, &log, meant(&log, &args.process)?)?;
    index::use_where_needed(&tools, &log, &mut cursor)?;
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let options = Options {
        told,
        good: &good,
        races: !args.no_races,
        tries: !args.no_tries,
        thorough: args.thorough,
        top: args.top,
        jobs,
    };
    let mut out = output(args.json);
    let named = format!("-p {} {}", cursor.pid(), quoted(&log.path().display().to_string()));
    let report = find((&tools, &log), &mut cursor, &options, &mut |report, part| {
        if !args.json {
            tools.work.end();
            write!(out, "{}", Shown { report, part, log: &named })?;
        }
        out.flush()
    })?;
    if let Some(path) = &args.html {
        // The page may be looked at from anywhere.
        let at = std::path::absolute(log.path())?;
        let symbols = Symbolizer::new(&log, report.pid)?;
        let log = format!("-p {} {}", report.pid, quoted(&at.display().to_string()));
        let page = html(&report, &symbols, &log).map_err(std::io::Error::from)?;
        make(path, |to| Ok(to.write_all(page.as_bytes())?))?;
    }
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        args.html.iter().try_for_each(|path| writeln!(out, "{} shows it as a page", path.display()))?;
    }
    if !args.json {
        others(&log, report.pid, &mut out)?;
    }
    Ok(out.flush()?)
}

/// Says which process failed first, if it was one that this one, which failed, had started.
fn others(log: &Log, id: ProcessId, out: &mut impl Write) -> Result<(), Failure> {
    // Of a light log, not all processes need be made.
    let all: Vec<Process> = if log.path().join(LIGHT_FOLDER).is_dir() {
        Light::read(log.path())?.processes().cloned().collect()
    } else {
        tree::processes(log)?
    };
    let found = failed_first(&all, id).and_then(|first| all.iter().find(|process| process.id == first));
    if let Some(process) = found {
        let command = process.info.as_ref().map_or_else(String::new, |info| info.args.join(" "));
        let path = quoted(&log.path().display().to_string());
        writeln!(
            out,
            "\nA process that it had started failed before it: {} ({}), {}",
            process.id,
            one_line(&command),
            end(&process.end)
        )?;
        writeln!(out, "  bugnet why -p {} {path}", process.id)?;
    }
    Ok(())
}

fn open_good(path: &Path, args: &WhyArgs) -> Result<Log, Failure> {
    let arg = LogArg { log: Some(path.to_owned()), identity: args.log.identity.clone() };
    Ok(Log::open_source(find_log(&arg)?)?)
}

/// What the user says of the output.
fn told(args: &WhyArgs) -> Result<Option<Told>, Failure> {
    if let Some(path) = &args.expect {
        let unreadable =
            |why| Failure::Usage(format!("--expect takes a file with the right output; {}: {why}", path.display()));
        let right = std::fs::read(path).map_err(unreadable)?;
        return Ok(Some(Told::Expected(right)));
    }
    let wrong = args.wrong.as_ref();
    Ok(wrong.map(|wrong| wrong.parse().map_or_else(|_| Told::Text(wrong.clone()), Told::Wrong)))
}
