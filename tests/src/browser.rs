//! Pages in a browser: Chromium without a window, by its DevTools protocol through a pipe.

use crate::bugnet::Workshop;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How the browser is called, on Debian and elsewhere.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A page that is open; the browser ends with it.
pub struct Page {
    browser: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// What it has complained of.
    pub errors: Vec<String>,
}

impl Page {
    /// Opens a file.
    ///
    /// # Errors
    /// There is no browser, or it does not open the file.
    pub fn open(workshop: &Workshop, file: &Path) -> Result<Self> {
        let is_there = |name: &&str| {
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        };
        let Some(name) = NAMES.into_iter().find(is_there) else {
            bail!("pages cannot be tried: there is no browser on this machine (apt-get install chromium)");
        };
        // The protocol's descriptors are 3 and 4.
        let options = "--headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --window-size=1400,900 --remote-debugging-pipe";
        let script = format!("exec {name} {options} --user-data-dir=\"$1\" 3<&0 4>&1 </dev/null >/dev/null 2>&1");
        let mut browser = Command::new("sh")
            .args(["-c", &script, "sh"])
            .arg(workshop.path.join("browser"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a browser")?;
        let (to, answers) = (browser.stdin.take().context("no stdin")?, browser.stdout.take().context("no stdout")?);
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let parsed =
                BufReader::new(answers).split(0).map_while(|answer| serde_json::from_slice(&answer.ok()?).ok());
            parsed.map(|answer| sender.send(answer)).take_while(|sent| sent.is_ok()).for_each(drop);
        });
        let mut page = Self { browser, to, from, session: None, last: 0, errors: Vec::new() };
        let target = page.ask("Target.createTarget", &json!({ "url": "about:blank" }))?["targetId"].clone();
        let session = page.ask("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }))?;
        page.session = session["sessionId"].as_str().map(ToOwned::to_owned);
        for what in ["Runtime", "Log", "Page", "Network"] {
            page.ask(&format!("{what}.enable"), &json!({}))?;
        }
        page.ask("Page.navigate", &json!({ "url": format!("file://{}", file.canonicalize()?.display()) }))?;
        let start = Instant::now();
        while page.value("document.readyState === 'complete' && location.protocol === 'file:'")? != true {
            ensure!(start.elapsed() < PATIENCE, "the page does not load");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(page)
    }

    /// Asks the browser for something.
    ///
    /// # Errors
    /// It does not answer, or cannot do it.
    pub fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(&serde_json::to_vec(&message)?)?;
        self.to.write_all(&[0])?;
        loop {
            let answer =
                self.from.recv_timeout(PATIENCE).with_context(|| format!("{method}: no answer of the browser"))?;
            self.notice(&answer);
            if answer["id"] == self.last {
                ensure!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return Ok(answer["result"].clone());
            }
        }
    }

    /// Remembers what went wrong in the page, and what it asked the network for.
    fn notice(&mut self, event: &Value) {
        let params = &event["params"];
        let is_local = |url: &str| ["file:", "about:", "data:"].iter().any(|scheme| url.starts_with(scheme));
        let wrong = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => params["entry"]["level"] == "error",
            Some("Network.requestWillBeSent") => !params["request"]["url"].as_str().is_some_and(is_local),
            Some("Page.javascriptDialogOpening") => true,
            _ => false,
        };
        if wrong {
            self.errors.push(params.to_string());
        }
    }

    /// What an expression yields in the page.
    ///
    /// # Errors
    /// It throws, or the browser does not answer.
    pub fn value(&mut self, expression: &str) -> Result<Value> {
        let answer = self.ask("Runtime.evaluate", &json!({ "expression": expression, "returnByValue": true }))?;
        ensure!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        Ok(answer["result"]["value"].clone())
    }

    /// What an expression yields in the page, as text.
    ///
    /// # Errors
    /// As for [`Self::value`], or it is no text.
    pub fn text(&mut self, expression: &str) -> Result<String> {
        let value = self.value(expression)?;
        value.as_str().map(ToOwned::to_owned).with_context(|| format!("{expression} is {value}"))
    }

    /// Where the middle of an element is.
    ///
    /// # Errors
    /// There is no such element.
    pub fn middle(&mut self, selector: &str) -> Result<(f64, f64)> {
        let found = self.value(&format!(
            "(() => {{ const b = document.querySelector({selector:?}).getBoundingClientRect();
             return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        ))?;
        Ok((found[0].as_f64().context("no x")?, found[1].as_f64().context("no y")?))
    }

    /// Something with the mouse: pressed, moved, released or turned at a point.
    ///
    /// # Errors
    /// The browser does not answer.
    pub fn mouse(&mut self, what: &str, (x, y): (f64, f64)) -> Result<()> {
        let mut params = json!({ "type": what, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
        if what == "mouseWheel" {
            params = json!({ "type": what, "x": x, "y": y, "deltaX": 0, "deltaY": -240 });
        }
        self.ask("Input.dispatchMouseEvent", &params).map(drop)
    }

    /// A click on the middle of an element.
    ///
    /// # Errors
    /// There is no such element, or the browser does not answer.
    pub fn click(&mut self, selector: &str) -> Result<()> {
        let at = self.middle(selector)?;
        self.mouse("mousePressed", at)?;
        self.mouse("mouseReleased", at)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It may be gone already; its processes end with the first.
        let _ = self.ask("Browser.close", &json!({}));
        let start = Instant::now();
        while matches!(self.browser.try_wait(), Ok(None)) && start.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
