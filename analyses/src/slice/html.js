const KINDS = [["data", "value"], ["address", "address: where in memory"], ["control", "decision: whether it runs"]];
const [WIDTH, HEIGHT, GAP, DOWN, LANE, LETTERS] = [310, 62, 26, 46, 16, 40];

// --- What there is: nodes, and edges from who takes to what is taken.

const valuesText = (values) => values.map((one) => `${one.name} = ${one.value}`).join(", ");
const where = (line) => {
  if (line.file) return `${line.file.split("/").pop()}:${line.line} in ${line.function ?? "?"}`;
  return (line.function ?? "?") + (line.module ? ` in ${line.module.split("/").pop()}` : "");
};
const timesText = (times) => (times > 1 ? `  ×${times}` : "");

// Text of one or two rows.
const wrapped = (text) => {
  const all = [...plain(text)];
  const end = all.length > LETTERS ? all.lastIndexOf(" ", LETTERS) : -1;
  const cut = end > LETTERS / 2 ? end : LETTERS;
  return [all.slice(0, cut).join(""), all.slice(cut).join("").trim()].filter(Boolean);
};
const titleOf = ({ text, function: name, instructions }) => {
  const more = instructions.length > 1 ? ` and ${instructions.length - 1} more` : "";
  return text ?? name ?? (instructions[0]?.[1] ?? "?") + more;
};

const question = (data.forward ? "Influence of " : "Why ") + data.asked;
const asked = { kind: "asked", item: data, name: question, main: wrapped(question), rest: ["at " + data.place] };
const flowText = ({ with: before, values }) =>
  [before.length ? "with " + valuesText(before) : "", values.length ? "→ " + valuesText(values) : ""].filter(Boolean).join(" ");
const lines = data.lines.map((item) => ({
  kind: item.system ? "line system" : "line",
  item,
  name: titleOf(item),
  main: [titleOf(item)],
  rest: [where(item) + timesText(item.times), flowText(item)],
}));
const sources = data.outside.map((item) => ({
  kind: "outside",
  item,
  name: item.what,
  main: wrapped(item.what),
  rest: [(item.place ? "at " + item.place : "before") + timesText(item.times)],
}));

const takes = (node) =>
  node.item.from.map(({ line, outside, by }) => ({ from: node, to: line === undefined ? sources[outside] : lines[line], by }));
const edges = [asked, ...lines].flatMap(takes);
// Sources of lines that are not shown are not, either.
const taken = new Set(edges.map((edge) => edge.to));
const nodes = [asked, ...lines, ...sources.filter((source) => taken.has(source))];
nodes.forEach((node) => Object.assign(node, { out: [], in: [] }));
for (const edge of edges) {
  edge.from.out.push(edge);
  edge.to.in.push(edge);
}

// Lines of libraries that follow each other are folded, unless there are no others.
const hasOwn = lines.some(({ item }) => !item.system);
const folds = [];
let run = null;
for (const line of lines) {
  if (!hasOwn || !line.item.system) {
    run = null;
    continue;
  }
  if (!run) folds.push(run = { kind: "line system fold", lines: [] });
  run.lines.push(line);
  line.fold = run;
}
for (const fold of folds) {
  const [first, ...more] = fold.lines;
  const functions = [...new Set(more.map(({ item }) => item.function ?? "?"))].filter((name) => name !== first.item.function);
  const name = first.item.function ?? (first.item.module ?? "a library").split("/").pop();
  const rest = functions.length ? ` and ${functions.length} more function${functions.length > 1 ? "s" : ""}` : "";
  Object.assign(fold, {
    name: name + rest,
    main: [name + rest],
    rest: [first.item.caller ? "called from " + first.item.caller.split("/").pop() : "", "of libraries: " + [...new Set(fold.lines.map(({ item }) => (item.module ?? "?").split("/").pop()))].join(", ")].filter(Boolean),
  });
}

// --- Where it is: what was executed later is higher up, and what a line takes is below it, but for what loops have brought from below.

const view = svg("g");
const graph = svg("svg", { id: "graph" });
graph.append(
  svg("defs", {}, ...KINDS.map(([kind]) =>
    svg("marker", { id: `arrow-${kind}`, class: kind, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto-start-reverse" },
      svg("path", { d: "M0 0L8 4L0 8Z" })))),
  view,
);

// Puts what is in a layer as near to where it should be as the others allow (least squares: what would overlap is put together as a block).
const spread = (layer) => {
  const blocks = [];
  let offset = 0;
  for (const node of layer) {
    node.offset = offset + node.width / 2;
    offset += node.width + GAP;
    let block = { nodes: [node], sum: node.wish - node.offset, count: 1 };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).count >= block.sum / block.count) {
      const before = blocks.pop();
      block = { nodes: before.nodes.concat(block.nodes), sum: before.sum + block.sum, count: before.count + block.count };
    }
    blocks.push(block);
  }
  for (const { nodes, sum, count } of blocks) for (const node of nodes) node.x = sum / count + node.offset;
};

const layOut = (boxes, joints) => {
  const goesDown = (joint) => joint.to.order > joint.from.order;
  const layers = [];
  const put = (box) => (layers[box.layer] ??= []).push(box);
  boxes.forEach((box, order) => Object.assign(box, { order, layer: 0, width: WIDTH, height: HEIGHT, near: [], above: [] }));
  for (const joint of joints.filter(goesDown)) joint.to.above.push(joint.from);
  for (const box of boxes) {
    box.layer = Math.max(0, ...box.above.map((other) => other.layer + 1));
    put(box);
  }
  // A joint over several layers has a lane through each; those of a kind to the same box share them.
  const join = (a, b) => {
    a.near.push(b);
    b.near.push(a);
  };
  const lanes = new Map();
  const lane = (to, by, layer) => {
    if (layer === to.layer) return to;
    const key = `${to.order} ${by} ${layer}`;
    if (!lanes.has(key)) {
      const made = { layer, width: LANE, height: HEIGHT, near: [] };
      lanes.set(key, made);
      put(made);
      join(made, lane(to, by, layer + 1));
    }
    return lanes.get(key);
  };
  for (const joint of joints.filter(goesDown)) {
    join(joint.from, lane(joint.to, joint.by, joint.from.layer + 1));
    joint.path = [joint.from];
    for (let layer = joint.from.layer + 1; layer <= joint.to.layer; layer++) joint.path.push(lane(joint.to, joint.by, layer));
  }
  for (const layer of layers) {
    layer.forEach((box, number) => { box.wish = number * WIDTH; });
    spread(layer);
  }
  for (let sweep = 0; sweep < 24; sweep++) {
    const isDown = sweep % 2 === 0;
    for (const layer of isDown ? layers : layers.toReversed()) {
      for (const box of layer) {
        const near = box.near.filter((other) => (other.layer < box.layer) === isDown);
        box.wish = near.length ? near.reduce((sum, other) => sum + other.x, 0) / near.length : box.x;
      }
      layer.sort((a, b) => a.wish - b.wish);
      spread(layer);
    }
  }
  layers.forEach((layer, number) => {
    for (const box of layer) box.y = number * (HEIGHT + DOWN);
  });
};

const curve = (x0, y0, x1, y1) => `C${x0} ${(y0 + y1) / 2} ${x1} ${(y0 + y1) / 2} ${x1} ${y1}`;
const pathOf = ({ from, to, by, path }) => {
  // Joints of different kinds between the same boxes lie beside each other.
  const aside = (["data", "address", "control"].indexOf(by) - 1) * 7;
  if (!path) {
    const [x0, y0, x1, y1] = [from.x + WIDTH / 2, from.y + HEIGHT / 2 + aside, to.x + WIDTH / 2, to.y + HEIGHT / 2 + aside];
    const out = Math.max(x0, x1) + 30 + Math.abs(y0 - y1) / 8;
    return `M${x0} ${y0}C${out} ${y0} ${out} ${y1} ${x1} ${y1}`;
  }
  let [x, y] = [from.x + aside, from.y + HEIGHT];
  let text = `M${x} ${y}`;
  for (const next of path.slice(1)) {
    text += curve(x, y, next.x + aside, next.y);
    [x, y] = [next.x + aside, next.y];
    if (next !== to) text += `V${y += HEIGHT}`;
  }
  return text;
};

// --- The picture: boxes, each a node or folded lines, and joints, each of one or several edges.

let [boxes, joints] = [[], []];
let isFolded = true;
const boxOf = (node) => (isFolded && node.fold) || node;
const draw = () => {
  boxes = [...new Set(nodes.map(boxOf))];
  const known = new Map();
  for (const edge of edges) {
    const [from, to] = [boxOf(edge.from), boxOf(edge.to)];
    const key = `${boxes.indexOf(from)} ${boxes.indexOf(to)} ${edge.by}`;
    if (from !== to && !known.has(key)) known.set(key, { from, to, by: edge.by });
  }
  joints = [...known.values()];
  layOut(boxes, joints);
  view.replaceChildren();
  for (const joint of joints) {
    joint.shape = svg("path", { class: `edge ${joint.by}`, d: pathOf(joint), "marker-start": `url(#arrow-${joint.by})` });
    view.append(joint.shape);
  }
  for (const box of boxes) {
    const rows = [...box.main.map((text) => [text, "", LETTERS]), ...box.rest.map((text) => [text, "faint", LETTERS + 3])];
    const text = rows.map(([text, look, letters], number) =>
      svg("text", { x: 10, y: 18 + number * 17, class: look }, shortened(text.replaceAll("\t", " "), letters)));
    box.shape = svg("g", { class: `node ${box.kind}`, transform: `translate(${box.x - WIDTH / 2} ${box.y})`, tabindex: 0, role: "button" },
      svg("rect", { width: WIDTH, height: HEIGHT, rx: box.kind === "outside" ? 18 : 6 }), ...text);
    box.shape.addEventListener("keydown", (event) => event.key === "Enter" && choose(box));
    view.append(box.shape);
  }
};

let [x, y, scale] = [0, 0, 1];
const place = () => view.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
const zoom = (by, atX, atY) => {
  const to = Math.min(4, Math.max(0.03, scale * by));
  [x, y] = [atX - (atX - x) * (to / scale), atY - (atY - y) * (to / scale)];
  scale = to;
  place();
};
const showAll = () => {
  const [box, frame] = [view.getBBox(), graph.getBoundingClientRect()];
  scale = Math.min(1, (frame.width - 40) / box.width, (frame.height - 40) / box.height);
  [x, y] = [frame.width / 2 - (box.x + box.width / 2) * scale, frame.height / 2 - (box.y + box.height / 2) * scale];
  place();
};
const goTo = (node, atY = 0.5) => {
  const frame = graph.getBoundingClientRect();
  [x, y] = [frame.width / 2 - node.x * scale, frame.height * atY - (node.y + HEIGHT / 2) * scale];
  place();
};
const isSeen = (node) => {
  const [own, frame] = [node.shape.getBoundingClientRect(), graph.getBoundingClientRect()];
  return own.left >= frame.left && own.right <= frame.right && own.top >= frame.top && own.bottom <= frame.bottom;
};

graph.addEventListener("wheel", (event) => {
  event.preventDefault();
  const frame = graph.getBoundingClientRect();
  // Some mice count lines, not dots.
  const steps = event.deltaY * (event.deltaMode ? 30 : 1);
  zoom(Math.exp(-steps / 500), event.clientX - frame.left, event.clientY - frame.top);
}, { passive: false });
let drag = null;
graph.addEventListener("pointerdown", (event) => {
  if (event.button === 0) drag = { x: event.clientX - x, y: event.clientY - y, far: 0 };
});
graph.addEventListener("pointermove", (event) => {
  if (!drag) return;
  const [toX, toY] = [event.clientX - drag.x, event.clientY - drag.y];
  drag.far += Math.abs(toX - x) + Math.abs(toY - y);
  if (drag.far < 4) return;
  // A click would go to whatever has the pointer.
  graph.setPointerCapture(event.pointerId);
  graph.classList.add("dragged");
  [x, y] = [toX, toY];
  place();
});
for (const end of ["pointerup", "pointercancel"]) {
  graph.addEventListener(end, (event) => {
    if (drag && drag.far < 4 && end === "pointerup") {
      const shape = event.target.closest(".node");
      choose(boxes.find((box) => box.shape === shape));
    }
    drag = null;
    graph.classList.remove("dragged");
  });
}

// --- What is known of a node.

const aside = el("aside");
let chosen = null;
const mark = (node) => {
  graph.classList.toggle("chosen", Boolean(node));
  const near = new Set(node && [node, ...linksOf(node).map(([, other]) => other)]);
  for (const other of nodes) other.row?.classList.toggle("near", near.has(other) && other !== node);
  for (const other of [...nodes, ...folds]) other.row?.classList.toggle("self", other === node);
  const [box, nearBoxes] = [node && boxOf(node), new Set([...near].map(boxOf))];
  for (const other of boxes) {
    other.shape.classList.toggle("near", nearBoxes.has(other));
    other.shape.classList.toggle("self", other === box);
  }
  for (const joint of joints) joint.shape.classList.toggle("near", joint.from === box || joint.to === box);
};
// The edges of a node, or of folded lines together, each with what is at its other end.
const linksOf = (node) => (node.lines ?? [node]).flatMap((one) =>
  [...one.out.map((edge) => [edge, edge.to]), ...one.in.map((edge) => [edge, edge.from])]).filter(([, other]) => other.fold !== node);
const choose = (node) => {
  chosen = node ?? null;
  mark(chosen);
  if (!node) return aside.replaceChildren();
  aside.replaceChildren(...about(node));
  aside.scrollTop = 0;
  if (isGraph()) {
    if (!isSeen(boxOf(node))) goTo(boxOf(node));
  } else if (node.row) {
    const fold = node.row.closest("details");
    if (fold && fold !== node.row) fold.open = true;
    node.row.scrollIntoView({ block: "nearest" });
  }
};

const button = (text, act, attributes = {}) => {
  const made = el("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
};
const copy = async (text, from, said) => {
  try {
    await navigator.clipboard.writeText(text);
    said.textContent = "Copied";
  } catch {
    // Where that is not allowed, it is selected at least.
    getSelection().selectAllChildren(from);
    said.textContent = "Ctrl-C copies it";
  }
};
const command = (text) => {
  const code = el("code", {}, text);
  const made = button("Copy", () => copy(text, code, made));
  return el("div", { class: "command" }, code, made);
};
const section = (title, ...children) => (children.length ? [el("h3", {}, title), ...children] : []);
const table = (rows) => el("table", {}, ...rows.map((row) => el("tr", {}, ...row.map((text) => el("td", { class: "code" }, text)))));
const values = (title, all) => (all.length ? section(title, table(all.map((one) => [one.name, one.value]))) : []);
const others = (title, all, which, more = 0) => section(title, ...(all.length ? [el("ul", {}, ...all.map((edge) => {
  const name = button(edge[which].name, () => choose(edge[which]), { class: "code" });
  return el("li", {}, name, el("span", { class: `kind ${edge.by}` }, ` ${edge.by}`), el("span", { class: "kind faint" }, ` ${edge[which].rest[0]}`));
}))] : []), ...(more ? [el("p", { class: "faint" }, `and ${more} more that are not shown`)] : []));

const about = (node) => {
  const { item } = node;
  if (node.lines) {
    const each = node.lines.map((line) => el("li", {}, button(where(line.item), () => choose(line), { class: "code" })));
    return [
      button("Close", () => choose(null), { id: "close" }),
      el("h2", {}, node.name),
      ...node.rest.map((text) => el("p", { class: "faint" }, text)),
      ...section("Lines and functions", el("ul", {}, ...each)),
    ];
  }
  const close = button("Close", () => choose(null), { id: "close" });
  const links = [...others("Takes from", node.out, "to", item.more), ...others("Gives to", node.in, "from")];
  const position = item.command ? section("Position", command(item.command)) : [];
  if (node.kind === "asked") return [close, el("h2", {}, node.name), el("p", { class: "faint" }, node.rest[0]), ...position, ...links];
  if (node.kind === "outside") return [close, el("h2", {}, node.name), el("p", { class: "faint" }, "from outside, " + node.rest[0]), ...position, ...links];
  const inlined = item.inlined.map((outer) => `, inlined into ${outer}`).join("");
  const often = item.times > 1 ? `executed ${item.times} times for it; shown is the last time` : "executed once for it";
  const before = item.before === null ? "" : `, ${item.before} instruction${item.before === 1 ? "" : "s"} before`;
  return [
    close,
    el("h2", {}, where(item) + inlined),
    el("p", { class: "faint" }, item.file ?? item.module ?? ""),
    el("p", { class: "faint" }, often + before),
    ...source(item),
    ...position,
    ...values("With", item.with),
    ...values("Then", item.values),
    ...section("Instructions in the slice", table(item.instructions)),
    ...links,
  ];
};
const source = ({ around, line }) => {
  if (!around) return [];
  const [first, text] = around;
  const digits = String(first + text.length).length;
  return [el("pre", { id: "source" }, ...text.map((row, number) => el("div", first + number === line ? { class: "here" } : {},
    el("span", { class: "faint" }, String(first + number).padStart(digits) + "  "), row)))];
};

// --- Search.

const sought = el("input", { type: "search", placeholder: "Search", "aria-label": "Search" });
const count = el("span", { class: "faint", id: "count" });
const textOf = ({ name, rest, item }) =>
  [name, ...rest, item.file, item.module, ...(item.instructions ?? []).flat()].join("\n").toLowerCase();
let [found, next] = [[], 0];
const showFound = () => {
  for (const node of nodes) node.row?.classList.toggle("found", found.includes(node));
  for (const fold of folds) if (fold.lines.some((line) => found.includes(line))) fold.row.open = true;
  const marked = new Set(found.map(boxOf));
  for (const box of boxes) box.shape.classList.toggle("found", marked.has(box));
};
sought.addEventListener("input", () => {
  const text = sought.value.trim().toLowerCase();
  found = text ? nodes.filter((node) => textOf(node).includes(text)) : [];
  next = 0;
  showFound();
  count.textContent = text ? `${found.length} found` : "";
});
sought.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !found.length) return;
  const node = found[next];
  count.textContent = `${next + 1} of ${found.length}`;
  next = (next + 1) % found.length;
  choose(node);
});
addEventListener("keydown", (event) => event.key === "Escape" && choose(null));

// --- Which edges are drawn.

const used = new Set(edges.map((edge) => edge.by));
const legend = KINDS.map(([kind, what]) => {
  const box = el("input", { type: "checkbox", ...(used.has(kind) ? { checked: "" } : { disabled: "" }) });
  box.addEventListener("change", () => graph.classList.toggle(`no-${kind}`, !box.checked));
  return el("label", { class: kind, title: "The arrow points to who takes it" }, box, svg("svg", { viewBox: "0 0 34 10" }, svg("path", { d: "M0 5H34" })), what);
});
// --- The list: the program's own lines with their text, and libraries folded in between.

const row = (node, ...content) => {
  const made = el("li", { class: node.kind, tabindex: 0, role: "button" }, ...content);
  made.addEventListener("click", () => choose(node));
  made.addEventListener("keydown", (event) => event.key === "Enter" && event.target === made && choose(node));
  return (node.row = made);
};
const lineRow = (node) => {
  const { item } = node;
  const text = item.text ? [el("pre", {}, item.text)] : [];
  const flow = flowText(item);
  return row(node,
    el("p", {}, el("b", {}, where(item)), el("span", { class: "faint" }, timesText(item.times)), el("span", { class: "faint code place" }, item.place)),
    ...text,
    ...(flow ? [el("p", { class: "faint code" }, flow)] : []));
};
const foldRow = (fold) => {
  const from = fold.lines[0].item.caller;
  const summary = el("summary", {}, el("b", {}, fold.name), el("span", { class: "faint" }, " of libraries" + (from ? ", called from " + from : "")));
  return (fold.row = el("details", {}, summary, el("ol", {}, ...fold.lines.map(lineRow))));
};
const steps = [];
for (const line of lines) {
  if (!line.fold) steps.push(lineRow(line));
  else if (line.fold.lines[0] === line) steps.push(el("li", { class: "folded" }, foldRow(line.fold)));
}
const outsideRows = nodes.filter(({ kind }) => kind === "outside").map((node) =>
  row(node, el("p", {}, node.name, el("span", { class: "faint code place" }, node.item.place ?? "before"))));
const order = data.forward ? "It went into, the first first" : "Made by, the last first";
const nothing = data.forward ? "No instruction has taken it." : "No instruction has made it.";
const list = el("div", { id: "list" },
  ...(steps.length ? [el("h2", {}, order), el("ol", { id: "steps" }, ...steps)] : [el("p", {}, nothing)]),
  ...(outsideRows.length ? [el("h2", {}, data.forward ? "To the kernel" : "From outside"), el("ol", {}, ...outsideRows)] : []));

// --- All together.

const libraries = el("input", { type: "checkbox", id: "libraries", ...(folds.length ? {} : { disabled: "" }) });
libraries.addEventListener("change", () => {
  isFolded = !libraries.checked;
  for (const fold of folds) fold.row.open = libraries.checked;
  if (!isGraph()) return;
  draw();
  showFound();
  mark(chosen);
  showAll();
});
const main = el("main", { class: "list" }, list, graph, aside);
const isGraph = () => main.classList.contains("graph");
const views = ["list", "graph"].map((name) => button(name === "list" ? "Lines" : "Graph", () => show(name), { id: `show-${name}` }));
const show = (name) => {
  main.className = name;
  document.body.className = name;
  views.forEach((made) => made.setAttribute("aria-pressed", made.id === `show-${name}`));
  if (name === "list") return chosen && choose(chosen);
  draw();
  showFound();
  showAll();
  if (scale < 0.6) {
    scale = 0.8;
    goTo(boxOf(chosen ?? asked), chosen ? 0.5 : 0.1);
  }
  mark(chosen);
};
const [own, ofLibraries] = [true, false].map((wanted) => lines.filter(({ item }) => item.system !== wanted).length);
const left = own < data.of[0] || ofLibraries < data.of[1];
const shown = left ? ` Shown are the last ${own} of its ${data.of[0]} lines, and the last ${ofLibraries} of ${data.of[1]} of libraries.` : "";
const summary = `${data.full ? "Full" : "Thin"} slice: ${data.executed} of ${data.walked} executed instructions; ${data.ended}.${shown}`;
document.title = shortened(question, 80);
document.body.append(
  el("header", {},
    el("h1", {}, `${question}, at ${data.place}`),
    el("div", { id: "search" }, count, sought),
    el("div", { id: "views" }, ...views, button("Show all", showAll, { id: "all" }),
      el("label", {}, libraries, "libraries")),
    el("div", { id: "legend" }, ...legend),
    el("p", { class: "faint", id: "summary" }, summary, ...data.notes.map((note) => el("div", {}, note)))),
  main,
);
show("list");
