//! The pages that commands make, in a browser: they show what the commands say, and nothing of a recorded program becomes code.

use anyhow::{Context, Result, ensure};
use bugnet_tests::browser::Page;
use bugnet_tests::bugnet::{Job, Workshop, binary, printed, run, source_tree};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Text that would do something where it were not text.
const HOSTILE: &str = "</script><img src=x onerror=alert(1)><!--\u{202e}";

struct Sliced {
    workshop: Workshop,
    page: PathBuf,
    report: Value,
}

/// A slice of a small program, as a page and as JSON.
fn sliced(name: &str, options: &[&str]) -> Result<Sliced> {
    let workshop = Workshop::new(&format!("pages-{name}"))?;
    let (program, log, page) =
        (workshop.path.join("program"), workshop.path.join("log"), workshop.path.join("page.html"));
    let source = source_tree().join("tests/programs/analyses/chained.c");
    let compiled = run(Command::new("gcc").args(["-g", "-O0", "-o"]).arg(&program).arg(source))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    let command = [&*program.to_string_lossy(), "a", HOSTILE, "c"];
    let recorded = run(&mut Job::new(&workshop.path, command).recorded(&log, &[])?)?;
    let slice = |page: &Path| -> Result<_> {
        let mut slice = Command::new(binary()?);
        slice.args(["slice", "--json", "--html"]).arg(page).args(options).arg(&log);
        run(&mut slice)
    };
    let output = slice(&page)?;
    ensure!(output.status.success(), "{}{}", printed(&recorded), printed(&output));
    let report = serde_json::from_slice(&output.stdout)?;
    // A page takes the place of another one; what else is there is not written over.
    let again = slice(&page)?;
    ensure!(again.status.success() && again.stdout == output.stdout, "{}", printed(&again));
    let again = slice(&program)?;
    ensure!(again.status.code() == Some(2) && printed(&again).contains("is there already"), "{}", printed(&again));
    Ok(Sliced { workshop, page, report })
}

/// How many elements there are.
fn count(page: &mut Page, selector: &str) -> Result<u64> {
    page.value(&format!("document.querySelectorAll({selector:?}).length"))?.as_u64().context("no number")
}

const TRANSFORM: &str = "document.querySelector('#graph > g').getAttribute('transform')";

#[test]
fn a_slice() -> Result<()> {
    let Sliced { workshop, page: file, report } = sliced("slice", &["--at", "report", "--var", "total"])?;
    let mut page = Page::open(&workshop, &file)?;
    let lines = report["lines"].as_array().context("no lines")?;
    let outside = report["outside"].as_array().context("no sources")?;
    // It begins with the program's own lines and their text; libraries are folded in between, each of which says where it was called.
    let is_own = |line: &&Value| line["is_system"] == false;
    let own: Vec<&Value> = lines.iter().filter(is_own).collect();
    ensure!(count(&mut page, "#steps > li.line")? == own.len() as u64, "not {} lines of its own", own.len());
    let first = page.text("document.querySelector('#steps > li.line pre').innerText")?;
    ensure!(own.first().is_some_and(|line| line["text"] == first.as_str()), "{first} is not the first: {report}");
    let runs = lines.chunk_by(|a, b| is_own(&a) == is_own(&b)).filter(|run| !is_own(&&run[0])).count() as u64;
    ensure!(runs > 0 && count(&mut page, "#steps details")? == runs, "not {runs} runs of libraries");
    ensure!(count(&mut page, "#steps details[open]")? == 0, "libraries are not folded");
    let called = page.text("document.querySelector('#steps details summary').innerText")?;
    ensure!(called.contains("called from push at ") && called.contains("chained.c:"), "{called}");
    ensure!(page.text("document.getElementById('list').innerText")?.contains("with "), "no values");
    // The graph has each run as one, until one wants to see more.
    page.click("#show-graph")?;
    ensure!(count(&mut page, ".node.line")? == own.len() as u64 + runs, "libraries are not folded in the graph");
    page.click("#libraries")?;
    ensure!(count(&mut page, ".node.line")? == lines.len() as u64, "not {} lines", lines.len());
    ensure!(count(&mut page, ".node.outside")? == outside.len() as u64, "not {} sources", outside.len());
    let all = |item: &Value| item["from"].as_array().map_or(0, Vec::len);
    let edges = all(&report) + lines.iter().map(all).sum::<usize>();
    ensure!(edges > lines.len() && count(&mut page, ".edge")? == edges as u64, "not {edges} edges");
    // A click tells of a line.
    let number =
        lines.iter().position(|line| line["text"].as_str().is_some_and(|text| text.contains("item->weight = ")));
    let number = number.context("no such line in the slice")?;
    page.value(&format!("document.querySelectorAll('.node.line')[{number}].id = 'sought'"))?;
    page.click("#sought")?;
    let (here, said) = (
        page.text("document.querySelector('#source .here').innerText")?,
        page.text("document.querySelector('aside').innerText")?,
    );
    ensure!(here.contains(lines[number]["text"].as_str().unwrap_or("?")), "{here}");
    let place = &lines[number]["place"];
    let place = format!("bugnet at {}/{}/{} -p ", place["tid"], place["interval"], place["position"]);
    ensure!(said.contains(&place), "no {place} in {said}");
    ensure!(count(&mut page, ".node.self")? == 1 && count(&mut page, ".edge.near")? > 1, "it is not marked");
    let instructions = lines[number]["instructions"].as_array().map_or(0, Vec::len);
    ensure!(instructions > 0 && said.contains(lines[number]["instructions"][0][1].as_str().unwrap_or("?")), "{said}");
    // From there, one goes on to what it takes.
    page.click("aside li button")?;
    ensure!(page.text("document.querySelector('aside').innerText")? != said, "it stayed there");
    // The wheel and the mouse move the view.
    let (before, middle) = (page.text(TRANSFORM)?, page.middle("#graph")?);
    page.mouse("mouseWheel", middle)?;
    let zoomed = page.text(TRANSFORM)?;
    ensure!(
        zoomed != before && zoomed.contains("scale(") && zoomed.split("scale").nth(1) != before.split("scale").nth(1),
        "{before}, {zoomed}"
    );
    page.mouse("mousePressed", middle)?;
    page.mouse("mouseMoved", (middle.0 + 40.0, middle.1 + 30.0))?;
    page.mouse("mouseReleased", (middle.0 + 40.0, middle.1 + 30.0))?;
    let dragged = page.text(TRANSFORM)?;
    ensure!(dragged != zoomed && dragged.split("scale").nth(1) == zoomed.split("scale").nth(1), "{zoomed}, {dragged}");
    page.value("(() => { const s = document.querySelector('input[type=search]'); s.value = 'STRLEN'; s.dispatchEvent(new Event('input')); })()")?;
    ensure!(count(&mut page, ".node.found")? > 0, "nothing is found");
    // What the program was given is shown as text, and no direction changes.
    let shown = page.text("document.body.innerText")?;
    ensure!(!shown.contains('\u{202e}') && count(&mut page, "img")? == 0, "{shown}");
    ensure!(page.errors.is_empty(), "{:?}", page.errors);
    drop(page);
    workshop.done()
}

#[test]
fn a_large_slice() -> Result<()> {
    let Sliced { workshop, page: file, report } =
        sliced("large-slice", &["--at", "report", "--var", "total", "--full=all"])?;
    let mut page = Page::open(&workshop, &file)?;
    let lines = report["lines"].as_array().context("no lines")?;
    let libraries = lines.iter().filter(|line| line["is_system"] == true).count();
    let own = lines.len() - libraries;
    ensure!(own > 0 && libraries > 200, "{own} lines, and {libraries} of libraries");
    ensure!(count(&mut page, "#steps > li.line")? == own as u64, "not {own} lines of its own");
    ensure!(count(&mut page, "#steps details li.line")? == 200, "not 200 lines of libraries");
    let summary = page.text("document.getElementById('summary').innerText")?;
    ensure!(
        summary.contains(&format!("the last {own} of its {own} lines, and the last 200 of {libraries} of libraries")),
        "{summary}"
    );
    page.click("#show-graph")?;
    page.click("#libraries")?;
    ensure!(count(&mut page, ".node.line")? == own as u64 + 200, "not {own} lines and 200 of libraries");
    let kinds = ["data", "address", "control"];
    for kind in kinds {
        ensure!(count(&mut page, &format!(".edge.{kind}"))? > 0, "no {kind}");
    }
    let looks = page.value("['data', 'address', 'control'].map((kind) => { const style = getComputedStyle(document.querySelector('.edge.' + kind)); return style.stroke + style.strokeDasharray; })")?;
    ensure!(looks[0] != looks[1] && looks[1] != looks[2] && looks[0] != looks[2], "{looks}");
    ensure!(page.errors.is_empty(), "{:?}", page.errors);
    drop(page);
    workshop.done()
}

#[test]
fn a_cause() -> Result<()> {
    let workshop = Workshop::new("pages-cause")?;
    let (source, program) = (workshop.path.join("program.c"), workshop.path.join("program"));
    let text = "#include <stdio.h>\n#include <stdlib.h>\nint main(int argc, char **argv) {\n    fprintf(stderr, \"%s\\n\", argv[1]);\n    \
                int *all = malloc(8);\n    all[2] = argc; // <script>alert(1)</script>\n    abort();\n}\n";
    std::fs::write(&source, text)?;
    let compiled = run(Command::new("gcc").args(["-g", "-O0", "-o"]).arg(&program).arg(&source))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    let (log, file) = (workshop.path.join("log"), workshop.path.join("page.html"));
    run(&mut Job::new(&workshop.path, [&*program.to_string_lossy(), HOSTILE]).recorded(&log, &[])?)?;
    let output = run(Command::new(binary()?).args(["why", "--json", "--html"]).arg(&file).arg(&log))?;
    ensure!(output.status.success(), "{}", printed(&output));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let mut page = Page::open(&workshop, &file)?;
    let suspects = report["suspects"].as_array().context("no suspects")?;
    ensure!(!suspects.is_empty() && count(&mut page, ".suspect")? == suspects.len() as u64, "{report}");
    ensure!(count(&mut page, ".step")? == report["chain"].as_array().map_or(0, Vec::len) as u64, "{report}");
    ensure!(count(&mut page, ".illegal")? == 1, "{report}");
    let text = |page: &mut Page, selector: &str| page.text(&format!("document.querySelector({selector:?}).innerText"));
    ensure!(text(&mut page, "#symptom")?.contains("SIGABRT"), "{}", text(&mut page, "#symptom")?);
    // What the program wrote and its source text are text.
    ensure!(text(&mut page, "#said")?.contains("<img src=x"), "{}", text(&mut page, "#said")?);
    let here = text(&mut page, ".suspect .here")?;
    ensure!(here.contains("all[2] = argc; // <script>alert(1)</script>") && count(&mut page, "img")? == 0, "{here}");
    let place = &suspects[0]["place"];
    let place = format!("bugnet debug --at {}/{}/{} -p ", place["tid"], place["interval"], place["position"]);
    ensure!(text(&mut page, ".suspect .command")?.contains(&place), "{}", text(&mut page, ".suspect .command")?);
    page.click(".suspect .command button")?;
    workshop.done()
}

/// What is drawn of each interval is what was counted, and the slice's parts of the intervals are all of it.
#[test]
fn counts_over_time() -> Result<()> {
    let workshop = Workshop::new("pages-stats")?;
    let (program, log, file) = (
        workshop.path.join(HOSTILE.replace(['/', ' '], "_")),
        workshop.path.join("log"),
        workshop.path.join("page.html"),
    );
    let source = source_tree().join("tests/programs/analyses/chained.c");
    let compiled = run(Command::new("gcc").args(["-g", "-O0", "-o"]).arg(&program).arg(source))?;
    ensure!(compiled.status.success(), "{}", printed(&compiled));
    let command = [&*program.to_string_lossy(), "a", "b", "c"];
    run(&mut Job::new(&workshop.path, command).recorded(&log, &["--interval", "2k"])?)?;
    let value = ["--at", "report", "--var", "total"];
    for kind in ["--slice", "--slice=full"] {
        let output = run(Command::new(binary()?).args(["stats", "--json", kind]).args(value).arg(&log))?;
        let stats: Value = serde_json::from_slice(&output.stdout).with_context(|| printed(&output))?;
        let mut slice = Command::new(binary()?);
        slice.args(["slice", "--json"]).args(value).args((kind == "--slice=full").then_some("--full")).arg(&log);
        let output = run(&mut slice)?;
        let slice: Value = serde_json::from_slice(&output.stdout).with_context(|| printed(&output))?;
        let rows = stats["intervals"].as_array().context("no intervals")?;
        let sum: u64 = rows.iter().filter_map(|row| row["slice"]["instructions"].as_u64()).sum();
        ensure!(sum > 20 && slice["counts"]["executed"] == sum, "{sum} of {kind} are not {}", slice["counts"]);
        ensure!(stats["slice"]["instructions"] == sum && stats["slice"]["full"] == (kind == "--slice=full"), "{kind}");
        for row in rows {
            let [part, all] = [&row["slice"]["lines"], &row["lines"]].map(|lines| lines.as_u64().unwrap_or(u64::MAX));
            ensure!(part <= all && all < u64::MAX, "{row}");
        }
    }
    let output = run(Command::new(binary()?).arg("stats").args(value).arg(&log))?;
    ensure!(output.status.code() == Some(2) && printed(&output).contains("say --slice"), "{}", printed(&output));
    let output = run(Command::new(binary()?).args(["stats", "--slice", "--html"]).arg(&file).args(value).arg(&log))?;
    let said = printed(&output);
    ensure!(
        output.status.success() && said.contains("IN SLICE") && said.contains("In the thin slice of total"),
        "{said}"
    );
    let output = run(Command::new(binary()?).args(["stats", "--json"]).arg(&log))?;
    let rows = serde_json::from_slice::<Value>(&output.stdout)?["intervals"].as_array().map_or(0, Vec::len);
    let mut page = Page::open(&workshop, &file)?;
    let charts = count(&mut page, ".thread figure")?;
    ensure!(charts == 6 && rows > 10, "{charts} drawings of {rows} intervals");
    for (kind, series) in [("first", 4), ("second", 1), ("slice", 2)] {
        let bars = count(&mut page, &format!("rect.{kind}"))?;
        ensure!(bars == series * rows as u64, "{bars} bars of {kind}");
    }
    let said = page.text("document.body.innerText")?;
    ensure!(said.contains("Functions that executed most") && count(&mut page, ".hottest tbody tr")? > 10, "{said}");
    ensure!(page.text("document.getElementById('calling').innerText")?.contains("main"), "{said}");
    ensure!(said.contains("The thin slice of total") && count(&mut page, "img")? == 0, "{said}");
    ensure!(page.errors.is_empty(), "{:?}", page.errors);
    drop(page);
    workshop.done()
}
