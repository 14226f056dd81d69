//! An editor's side of the Debug Adapter Protocol.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// An editor that has started a debug adapter.
#[derive(Debug)]
pub struct Editor {
    adapter: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
    /// Events that nobody has waited for yet.
    events: Vec<Value>,
}

impl Editor {
    /// Starts an adapter.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut adapter = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = adapter.stdin.take();
        let output = BufReader::new(adapter.stdout.take().context("no stdout")?);
        Ok(Self { adapter, input, output, asked: 0, events: Vec::new() })
    }

    fn read(&mut self) -> Result<Value> {
        let mut length = None;
        loop {
            let mut line = String::new();
            ensure!(self.output.read_line(&mut line)? > 0, "the adapter has ended; before that: {:#?}", self.events);
            match line.trim_end().split_once(": ") {
                Some(("Content-Length", number)) => length = Some(number.parse::<usize>()?),
                Some(_) => {}
                None if line.trim().is_empty() => break,
                None => bail!("no header: {line}"),
            }
        }
        let mut body = vec![0; length.context("a message without its length")?];
        self.output.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Sends a request, whose number it returns.
    ///
    /// # Errors
    /// The adapter has ended.
    pub fn send(&mut self, command: &str, arguments: &Value) -> Result<u64> {
        self.asked += 1;
        let body =
            json!({"seq": self.asked, "type": "request", "command": command, "arguments": arguments}).to_string();
        let input = self.input.as_mut().context("closed")?;
        write!(input, "Content-Length: {}\r\n\r\n{body}", body.len())?;
        input.flush()?;
        Ok(self.asked)
    }

    /// The body of the answer to a request.
    ///
    /// # Errors
    /// The adapter has ended, or refuses it.
    pub fn answer(&mut self, number: u64) -> Result<Value> {
        loop {
            let message = self.read()?;
            if message["type"] != "response" {
                self.events.push(message);
            } else if message["request_seq"] == number {
                ensure!(message["success"] == true, "{message}");
                return Ok(message["body"].clone());
            }
        }
    }

    /// Sends a request, and waits for its answer.
    ///
    /// # Errors
    /// The adapter has ended, or refuses it.
    pub fn ask(&mut self, command: &str, arguments: &Value) -> Result<Value> {
        let number = self.send(command, arguments)?;
        self.answer(number).with_context(|| format!("{command} {arguments}"))
    }

    /// The body of the next event of this kind.
    ///
    /// # Errors
    /// The adapter has ended.
    pub fn event(&mut self, kind: &str) -> Result<Value> {
        loop {
            if let Some(index) = self.events.iter().position(|event| event["event"] == kind) {
                return Ok(self.events.remove(index)["body"].clone());
            }
            let message = self.read()?;
            self.events.push(message);
        }
    }

    /// Sends a request that lets the program run, and waits until it stops. Returns why.
    ///
    /// # Errors
    /// The adapter has ended, or refuses it.
    pub fn run(&mut self, command: &str, arguments: &Value) -> Result<String> {
        self.ask(command, arguments)?;
        let stopped = self.event("stopped")?;
        Ok(stopped["reason"].as_str().context("no reason")?.to_owned())
    }

    /// The innermost frame of a thread: its function, line and number.
    ///
    /// # Errors
    /// The adapter has ended, or the thread has none.
    pub fn frame(&mut self, thread: u64) -> Result<(String, usize, u64)> {
        let body = self.ask("stackTrace", &json!({"threadId": thread, "startFrame": 0, "levels": 1}))?;
        let frame = &body["stackFrames"][0];
        let name = frame["name"].as_str().with_context(|| format!("no frame: {body}"))?;
        Ok((name.to_owned(), frame["line"].as_u64().unwrap_or(0) as usize, frame["id"].as_u64().context("no id")?))
    }

    /// The value of an expression in a thread's innermost frame.
    ///
    /// # Errors
    /// The adapter has ended, or the expression has none.
    pub fn value(&mut self, expression: &str, thread: u64) -> Result<String> {
        let (_, _, frame) = self.frame(thread)?;
        let said = self.ask("evaluate", &json!({"expression": expression, "frameId": frame, "context": "watch"}))?;
        Ok(said["result"].as_str().context("no value")?.to_owned())
    }

    /// Disconnects; the adapter ends by itself.
    ///
    /// # Errors
    /// It does not, or not as it should.
    pub fn end(mut self) -> Result<()> {
        self.ask("disconnect", &json!({}))?;
        self.input = None;
        let status = self.adapter.wait()?;
        ensure!(status.success(), "the adapter's {status}");
        Ok(())
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // It fails only if it is gone already.
        let _ = self.adapter.kill();
    }
}
