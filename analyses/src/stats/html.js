const WIDTH = 420, HEIGHT = 130, LEFT = 46, BELOW = 16, ABOVE = 8;

const rounded = (number) => (number >= 100 || Number.isInteger(number) ? String(Math.round(number)) : number.toPrecision(3));
const short = (number) => {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (number >= size) return rounded(number / size) + " " + unit;
  }
  return rounded(number);
};
const bytes = (number) => {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (number >= size) return rounded(number / size) + " " + unit;
  }
  return number + " B";
};
const percent = (number) => rounded(number) + " %";

// A drawing of a thread's intervals: series are stacked, each with a class, a name and how a bar's value is found.
const chart = (title, bars, series, unit) => {
  const value = (bar) => series.reduce((sum, one) => sum + one.of(bar), 0);
  const most = Math.max(...bars.map(value));
  const step = (WIDTH - LEFT) / bars.length, scale = most > 0 ? (HEIGHT - BELOW - ABOVE) / most : 0;
  const drawn = bars.flatMap((bar, number) => {
    let top = HEIGHT - BELOW;
    const said = series.map((one) => `${one.name}: ${unit(one.of(bar))}`).join("\n");
    const which = bar.first === bar.last ? `interval ${bar.first}` : `intervals ${bar.first} to ${bar.last}`;
    return series.map((one) => {
      const height = one.of(bar) * scale;
      top -= height;
      return svg("rect", {
        class: one.kind, x: LEFT + number * step, y: top, width: Math.max(step - (step > 3 ? 1 : 0), 0.5), height,
      }, svg("title", {}, `${which}\n${said}`));
    });
  });
  const axis = [
    svg("line", { x1: LEFT, x2: WIDTH, y1: HEIGHT - BELOW, y2: HEIGHT - BELOW }),
    svg("line", { x1: LEFT, x2: WIDTH, y1: ABOVE, y2: ABOVE }),
    svg("text", { x: LEFT - 4, y: ABOVE + 4, "text-anchor": "end" }, unit(most)),
    svg("text", { x: LEFT - 4, y: HEIGHT - BELOW, "text-anchor": "end" }, unit(0)),
    svg("text", { x: LEFT, y: HEIGHT - 3 }, String(bars[0].first)),
    svg("text", { x: WIDTH, y: HEIGHT - 3, "text-anchor": "end" }, String(bars[bars.length - 1].last)),
  ];
  const keys = series.length > 1 ? series.flatMap((one) => [el("span", { class: `key ${one.kind}` }), one.name]) : [];
  return el("figure", {},
    el("figcaption", {}, el("span", {}, title), el("span", { class: "faint" }, ...keys)),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title }, ...axis, ...drawn));
};

const count = (name, kind = "first", label = name.replace("_", " ")) => ({ name: label, kind, of: (bar) => bar[name] });
const part = (name, all) => ({
  name: "in the slice", kind: "slice", of: (bar) => (bar.slice && bar[all] ? (bar.slice[name] * 100) / bar[all] : 0),
});

document.body.append(el("header", {}, el("h1", {}, "What was executed"), el("span", { class: "faint" }, data.log),
  el("span", {}, `${data.total.instructions.toLocaleString("en")} instructions`)));
if (data.cut) document.body.append(el("section", { id: "cut" }, el("p", {}, data.cut)));
if (data.slice) {
  const { asked, full, instructions, lines, over } = data.slice;
  document.body.append(el("section", { id: "slice" }, el("p", {},
    `The ${full ? "full" : "thin"} slice of ${asked}${over ? ", as far as it was followed," : ""} has ${instructions.toLocaleString("en")} of these, which access ${bytes(lines * 64)}.`)));
}
for (const { name, bars } of data.threads) {
  const several = bars.some((bar) => bar.first !== bar.last) ? "; several intervals have one bar" : "";
  const charts = [
    chart("instructions", bars, [count("instructions")], short),
    chart("loads and stores", bars, [count("loads"), count("stores", "second")], short),
    chart("first loads", bars, [count("first_loads")], short),
    chart("memory accessed", bars, [{ name: "memory", kind: "first", of: (bar) => bar.lines * 64 }], bytes),
  ];
  if (bars.some((bar) => bar.slice)) {
    charts.push(chart("instructions in the slice", bars, [part("instructions", "instructions")], percent),
      chart("memory of the slice", bars, [part("lines", "lines")], percent));
  }
  document.body.append(el("section", { class: "thread" },
    el("h2", {}, `${name}, by intervals${several}`), el("div", { class: "charts" }, ...charts)));
}

const hottest = (title, all, note) => {
  if (!all.length) return;
  const row = (hot) => el("tr", {},
    el("td", { class: "number" }, percent((hot.instructions * 100) / data.of)),
    el("td", { class: "number" }, hot.instructions.toLocaleString("en")),
    el("td", { class: "part" }, el("div", { style: `width: ${(hot.instructions * 100) / all[0].instructions}%` })),
    el("td", {}, hot.name), el("td", { class: "faint" }, (hot.module ?? "").split("/").pop()));
  const head = ["", "instructions", "", "where", "file"].map((text) => el("th", {}, text));
  document.body.append(el("section", { class: "hottest" }, el("h2", {}, title),
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...all.map(row))), note));
};
if (data.calling.length) {
  const parts = (one) => [one.with_libraries, one.instructions, one.total];
  const row = (one) => el("tr", {},
    ...parts(one).map((part) => el("td", { class: "number", title: part.toLocaleString("en") }, percent((part * 100) / data.of))),
    el("td", { class: "part" }, el("div", { style: `width: ${(one.with_libraries * 100) / Math.max(1, data.calling[0].with_libraries)}%` })),
    el("td", {}, one.name), el("td", { class: "faint" }, (one.module ?? "").split("/").pop()));
  const head = ["with libraries", "alone", "total", "", "function", "file"].map((text) => el("th", {}, text));
  document.body.append(el("section", { class: "hottest", id: "calling" },
    el("h2", {}, "Functions of the program itself: with the libraries that they called, alone, and with all that they called"),
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...data.calling.map(row)))));
}
hottest("Functions that executed most", data.functions, "");
hottest("Lines that executed most", data.lines,
  data.without_line ? el("p", { class: "faint" }, `Of ${data.without_line.toLocaleString("en")} instructions, no line is known.`) : "");
