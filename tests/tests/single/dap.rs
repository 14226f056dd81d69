//! `bugnet debug --dap`: a recording in an editor, which speaks the Debug Adapter Protocol.

use anyhow::{Context, Result, ensure};
use bugnet_tests::bugnet::{Workshop, binary, new_gdb, printed};
use bugnet_tests::debugged::{line_with, recorded, source};
use bugnet_tests::editor::Editor;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

/// An editor that has opened a recording, as its configuration says (`launch` or `attach`), with breakpoints at these lines.
fn opened(log: &Path, options: &[&str], request: &str, (name, lines): (&str, &[usize])) -> Result<(Editor, Value)> {
    let mut command = Command::new(binary()?);
    command.args(["debug", "--dap", "--gdb"]).arg(new_gdb()?).args(options).arg(log);
    let mut editor = Editor::start(command.stderr(Stdio::null()))?;
    let can =
        editor.ask("initialize", &json!({"clientID": "test", "adapterID": "bugnet", "supportsVariableType": true}))?;
    editor.event("initialized")?;
    let opening = editor.send(request, &json!({"program": "/not/here"}))?;
    let lines: Vec<Value> = lines.iter().map(|line| json!({"line": line})).collect();
    let set = editor.ask("setBreakpoints", &json!({"source": {"path": source(name)}, "breakpoints": lines}))?;
    ensure!(set["breakpoints"].as_array().map(Vec::len) == Some(lines.len()), "{set}");
    editor.ask("configurationDone", &json!({}))?;
    editor.answer(opening)?;
    ensure!(editor.event("stopped")?["reason"] == "attach", "it does not begin where the recording ends");
    Ok((editor, can))
}

/// Lets the program run, until it stops for this reason.
fn runs(editor: &mut Editor, command: &str, arguments: &Value, reason: &str) -> Result<()> {
    let stopped = editor.run(command, arguments)?;
    ensure!(stopped == reason, "{command} {arguments} stopped for {stopped}, not {reason}");
    Ok(())
}

/// The number of the only thread.
fn thread(editor: &mut Editor) -> Result<u64> {
    let threads = editor.ask("threads", &json!({}))?;
    threads["threads"][0]["id"].as_u64().with_context(|| format!("no thread: {threads}"))
}

#[test]
fn from_a_crash_to_its_cause() -> Result<()> {
    let workshop = Workshop::new("dap-cause")?;
    let name = "heap_overflow";
    let log = recorded(&workshop, name, &[])?;
    let (crash, cause) = (line_with(name, "return entry->text[0]")?, line_with(name, "CULPRIT")?);
    for request in ["attach", "launch"] {
        let call = line_with(name, "fill(entry,")?;
        let (mut editor, can) = opened(&log, &[], request, (name, &[call]))?;
        ensure!(can["supportsStepBack"] == true && can["supportsDataBreakpoints"] == true, "{can}");
        // Nothing can be changed.
        ensure!(can["supportsSetVariable"].is_null() && can["supportsWriteMemoryRequest"].is_null(), "{can}");
        let it = thread(&mut editor)?;
        let here = json!({"threadId": it});
        let (function, line, frame) = editor.frame(it)?;
        ensure!((&*function, line) == ("main", crash), "{function}:{line}");

        // What wrote the pointer that is wrong?
        let scopes = editor.ask("scopes", &json!({"frameId": frame}))?;
        let locals = scopes["scopes"].as_array().context("no scopes")?.iter().find(|scope| scope["name"] == "Locals");
        let locals = locals.with_context(|| format!("no locals: {scopes}"))?["variablesReference"].clone();
        let variables = editor.ask("variables", &json!({"variablesReference": locals}))?;
        ensure!(variables["variables"][0]["name"] == "entry", "{variables}");
        let info = editor.ask("dataBreakpointInfo", &json!({"name": "entry->text", "frameId": frame}))?;
        let local = editor.ask("dataBreakpointInfo", &json!({"name": "entry", "variablesReference": locals}))?;
        ensure!(local["dataId"].is_string() && local["dataId"] != info["dataId"], "{local} {info}");
        let wanted = json!({"breakpoints": [{"dataId": info["dataId"], "accessType": "write"}]});
        let set = editor.ask("setDataBreakpoints", &wanted)?;
        ensure!(set["breakpoints"][0]["verified"] == true, "{set}");
        runs(&mut editor, "reverseContinue", &here, "data breakpoint")?;
        let (function, line, _) = editor.frame(it)?;
        // gdb stops before the write; where that is a line's first instruction, it says this line.
        ensure!(function.starts_with("fill") && line == cause, "{function}:{line}");

        // The one before it, of those that had a part in it.
        ensure!(editor.value("i", it)? == "23", "not the last letter");
        let again = json!({"breakpoints": [{"dataId": info["dataId"], "accessType": "write", "hitCondition": "1"}]});
        editor.ask("setDataBreakpoints", &again)?;
        runs(&mut editor, "reverseContinue", &here, "data breakpoint")?;
        ensure!(editor.value("i", it)? == "21", "not two letters before");

        // Without it, back to the call, and a line forth and back.
        editor.ask("setDataBreakpoints", &json!({"breakpoints": []}))?;
        runs(&mut editor, "reverseContinue", &here, "breakpoint")?;
        ensure!(editor.frame(it)?.1 == call, "not the call");
        runs(&mut editor, "stepBack", &here, "step")?;
        ensure!(editor.frame(it)?.1 == call - 1, "not the line before");
        editor.run("next", &here)?;
        editor.run("stepIn", &here)?;
        ensure!(editor.frame(it)?.0.starts_with("fill"), "not in the function");
        let by_instruction = json!({"threadId": it, "granularity": "instruction"});
        editor.run("stepBack", &by_instruction)?;
        editor.run("next", &by_instruction)?;
        ensure!(editor.frame(it)?.0.starts_with("fill"), "not there again");
        editor.end()?;
    }
    workshop.done()
}

#[test]
fn an_editors_console_goes_anywhere() -> Result<()> {
    let workshop = Workshop::new("dap-console")?;
    let name = "heap_overflow";
    let log = recorded(&workshop, name, &[])?;
    let (mut editor, _) = opened(&log, &["--at", "fill"], "attach", (name, &[]))?;
    let it = thread(&mut editor)?;
    ensure!(editor.frame(it)?.0.starts_with("fill"), "not there");
    let console = |text: &str| json!({"expression": text, "context": "repl"});
    let when = editor.ask("evaluate", &console("when"))?;
    ensure!(when["result"].as_str().is_some_and(|said| said.contains("(time @")), "{when}");
    // The editor is told that it is elsewhere.
    editor.ask("evaluate", &console("seek start"))?;
    ensure!(editor.event("stopped")?["reason"] == "goto", "stopped otherwise");
    ensure!(editor.frame(it)?.0 == "_start", "not at the start");
    // There is nothing before, for which gdb has no reason to give.
    editor.run("stepBack", &json!({"threadId": it}))?;
    ensure!(editor.frame(it)?.0 == "_start", "not at the start");
    editor.ask("evaluate", &console("seek end"))?;
    editor.event("stopped")?;
    let (function, _, frame) = editor.frame(it)?;
    ensure!(function == "main", "{function}");
    // What cannot be watched is said.
    let info = editor.ask("dataBreakpointInfo", &json!({"name": "1 + 1", "frameId": frame}))?;
    ensure!(info["dataId"].is_null() && info["description"] == "1 + 1 is not in memory", "{info}");
    let wrong = editor.ask("evaluate", &json!({"expression": "nobody", "context": "watch"}));
    ensure!(wrong.is_err_and(|error| format!("{error:#}").contains("No symbol")), "no error");
    let refused = editor.ask("evaluate", &console("set var entry->text = 0"));
    ensure!(refused.is_err_and(|error| format!("{error:#}").contains("not allowed")), "it was changed");
    editor.end()?;
    workshop.done()
}

#[test]
fn a_long_run_is_paused() -> Result<()> {
    let workshop = Workshop::new("dap-pause")?;
    let log = recorded(&workshop, "long", &[])?;
    let (mut editor, _) = opened(&log, &["--start"], "attach", ("long", &[]))?;
    let it = thread(&mut editor)?;
    // Which takes long, since each access is looked at.
    let wanted = json!({"breakpoints": [{"dataId": "*(char *) 1", "accessType": "readWrite"}]});
    ensure!(editor.ask("setDataBreakpoints", &wanted)?["breakpoints"][0]["verified"] == true, "not set");
    let here = json!({"threadId": it});
    editor.ask("continue", &here)?;
    runs(&mut editor, "pause", &here, "pause")?;
    let (function, ..) = editor.frame(it)?;
    ensure!(!function.is_empty(), "nowhere");
    editor.end()?;
    workshop.done()
}

#[test]
fn a_gdb_that_is_too_old() -> Result<()> {
    let workshop = Workshop::new("dap-old")?;
    let log = recorded(&workshop, "heap_overflow", &[])?;
    let debian = Command::new(binary()?).args(["debug", "--dap"]).arg(&log).stdin(Stdio::null()).output()?;
    ensure!(!debian.status.success() && printed(&debian).contains("takes gdb 14 or newer"), "{}", printed(&debian));
    workshop.done()
}
