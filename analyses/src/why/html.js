const base = (file) => file.split("/").pop();

// A command with a button that copies it.
const command = (text) => {
  const button = el("button", { type: "button" }, "copy");
  button.addEventListener("click", async () => {
    // A page that lies in a file may not be allowed to; then one marks it and copies it by hand.
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(button.nextSibling);
      button.textContent = "marked";
    }
  });
  return el("div", { class: "command" }, button, el("code", {}, text));
};

// Source text around a line, which is marked.
const source = (around, line) => {
  if (!around) return "";
  const [first, texts] = around;
  const row = (text, number) =>
    el("span", number === line ? { class: "here" } : {}, el("i", {}, String(number)), text || " ");
  return el("pre", {}, ...texts.map((text, index) => row(text, first + index)));
};

const section = (title, ...children) =>
  document.body.append(el("section", {}, el("h2", {}, title), ...children));

document.body.append(el("header", {}, el("h1", {}, "Why it failed")));
document.body.append(el("div", { class: "box", id: "symptom" }, ...data.symptom.map((line) => el("p", {}, line))));
if (data.said.length) section("What it wrote to standard error, last", el("pre", { id: "said" }, ...data.said.map((line) => el("span", {}, line))));

if (data.illegal.length) {
  section("The first thing that was illegal", ...data.illegal.map((one) =>
    el("div", { class: "illegal" }, el("p", {}, one.what), el("p", { class: "faint" }, `${one.place} in ${one.at}`), command(one.command))));
} else {
  section("What was illegal", el("p", { class: "faint" }, data.looked));
}

if (data.suspects.length) {
  section("Lines to look at first", el("ol", { id: "suspects" }, ...data.suspects.map((one) =>
    el("li", { class: "suspect" },
      el("p", {}, el("b", {}, `${base(one.file)}:${one.line}`), one.function ? ` in ${one.function}` : "", el("span", { class: "faint" }, "  " + one.file)),
      source(one.around, one.line),
      el("ul", {}, ...one.why.map((why) => el("li", {}, why))),
      command(one.command)))));
}

if (data.chain.length) {
  const row = (step) => el("tr", { class: "step" },
    el("td", { class: "code" }, step.place),
    el("td", {}, `${base(step.file)}:${step.line} in ${step.function ?? "?"}` + (step.times > 1 ? `  ×${step.times}` : "")),
    el("td", {}, el("code", {}, step.text ?? ""),
      el("p", { class: "faint" }, [step.with.length ? "with " + step.with.join(", ") : "", step.values.length ? "→ " + step.values.join(", ") : ""].filter(Boolean).join(" "))));
  section("The values from which it follows, the last first",
    el("p", {}, data.asked ? `${data.asked}, at ${data.place}` : ""),
    el("table", { id: "chain" }, el("tbody", {}, ...data.chain.map(row))),
    el("ul", { id: "outside" }, ...data.outside.map((one) => el("li", {}, "from outside: " + one))));
}
if (data.differs.length) section("What differs from a right run", el("ul", { id: "differs" }, ...data.differs.map((one) => el("li", {}, one))));
if (data.notes.length) section("Not known", el("ul", { id: "notes" }, ...data.notes.map((note) => el("li", {}, note))));
document.body.append(el("p", { class: "faint" }, "The rank of lines is inferred: the faulty line may be another one, or one that was not executed."));
