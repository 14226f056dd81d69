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

const asked = { kind: "asked", item: data, name: "Why " + data.asked, main: wrapped("Why " + data.asked), rest: ["at " + data.place] };
const lines = data.lines.map((item) => ({
  kind: item.system ? "line system" : "line",
  item,
  name: titleOf(item),
  main: [titleOf(item)],
  rest: [
    where(item) + timesText(item.times),
    [item.with.length ? "with " + valuesText(item.with) : "", item.values.length ? "→ " + valuesText(item.values) : ""]
      .filter(Boolean).join(" "),
  ],
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
nodes.forEach((node, order) => Object.assign(node, { order, out: [], in: [] }));
for (const edge of edges) {
  edge.from.out.push(edge);
  edge.to.in.push(edge);
}

// --- Where it is: what was executed later is higher up, and what a line takes is below it, but for what loops have brought from below.

const goesDown = (edge) => edge.to.order > edge.from.order;
const layers = [];
const put = (node) => (layers[node.layer] ??= []).push(node);
for (const node of nodes) {
  node.layer = Math.max(0, ...node.in.filter(goesDown).map((edge) => edge.from.layer + 1));
  Object.assign(node, { width: WIDTH, height: HEIGHT, near: [] });
  put(node);
}
// An edge over several layers has a lane through each; those of a kind to the same node share them.
const join = (a, b) => {
  a.near.push(b);
  b.near.push(a);
};
const lanes = new Map();
const lane = (to, by, layer) => {
  if (layer === to.layer) return to;
  const key = `${to.order} ${by} ${layer}`;
  if (!lanes.has(key)) {
    const made = { layer, width: LANE, height: 0, near: [] };
    lanes.set(key, made);
    put(made);
    join(made, lane(to, by, layer + 1));
  }
  return lanes.get(key);
};
for (const edge of edges.filter(goesDown)) {
  join(edge.from, lane(edge.to, edge.by, edge.from.layer + 1));
  edge.path = [edge.from];
  for (let layer = edge.from.layer + 1; layer <= edge.to.layer; layer++) edge.path.push(lane(edge.to, edge.by, layer));
}

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
for (const layer of layers) {
  layer.forEach((node, number) => { node.wish = number * WIDTH; });
  spread(layer);
}
for (let sweep = 0; sweep < 24; sweep++) {
  const isDown = sweep % 2 === 0;
  for (const layer of isDown ? layers : layers.toReversed()) {
    for (const node of layer) {
      const near = node.near.filter((other) => (other.layer < node.layer) === isDown);
      node.wish = near.length ? near.reduce((sum, other) => sum + other.x, 0) / near.length : node.x;
    }
    layer.sort((a, b) => a.wish - b.wish);
    spread(layer);
  }
}
layers.forEach((layer, number) => {
  for (const node of layer) node.y = number * (HEIGHT + DOWN);
});
for (const made of lanes.values()) made.height = HEIGHT;

const curve = (x0, y0, x1, y1) => `C${x0} ${(y0 + y1) / 2} ${x1} ${(y0 + y1) / 2} ${x1} ${y1}`;
const pathOf = ({ from, to, by, path }) => {
  // Edges of different kinds between the same nodes lie beside each other.
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

// --- The picture.

const view = svg("g");
const graph = svg("svg", { id: "graph" });
graph.append(
  svg("defs", {}, ...KINDS.map(([kind]) =>
    svg("marker", { id: `arrow-${kind}`, class: kind, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto-start-reverse" },
      svg("path", { d: "M0 0L8 4L0 8Z" })))),
  view,
);
for (const edge of edges) {
  edge.shape = svg("path", { class: `edge ${edge.by}`, d: pathOf(edge), "marker-start": `url(#arrow-${edge.by})` });
  view.append(edge.shape);
}
for (const node of nodes) {
  const rows = [...node.main.map((text) => [text, "", LETTERS]), ...node.rest.map((text) => [text, "faint", LETTERS + 3])];
  const text = rows.map(([text, look, letters], number) =>
    svg("text", { x: 10, y: 18 + number * 17, class: look }, shortened(text.replaceAll("\t", " "), letters)));
  node.shape = svg("g", { class: `node ${node.kind}`, transform: `translate(${node.x - WIDTH / 2} ${node.y})`, tabindex: 0, role: "button" },
    svg("rect", { width: WIDTH, height: HEIGHT, rx: node.kind === "outside" ? 18 : 6 }), ...text);
  node.shape.addEventListener("keydown", (event) => event.key === "Enter" && choose(node));
  view.append(node.shape);
}

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
      choose(nodes.find((node) => node.shape === shape));
    }
    drag = null;
    graph.classList.remove("dragged");
  });
}

// --- What is known of a node.

const aside = el("aside");
const choose = (node) => {
  graph.classList.toggle("chosen", Boolean(node));
  for (const other of nodes) other.shape.classList.remove("near", "self");
  for (const edge of edges) edge.shape.classList.toggle("near", edge.from === node || edge.to === node);
  if (!node) return aside.replaceChildren();
  node.shape.classList.add("near", "self");
  for (const edge of node.out) edge.to.shape.classList.add("near");
  for (const edge of node.in) edge.from.shape.classList.add("near");
  aside.replaceChildren(...about(node));
  aside.scrollTop = 0;
  if (!isSeen(node)) goTo(node);
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
  const close = button("Close", () => choose(null), { id: "close" });
  const links = [...others("Takes from", node.out, "to", item.more), ...others("Gives to", node.in, "from")];
  const position = item.command ? section("Position", command(item.command)) : [];
  if (node.kind === "asked") return [close, el("h2", {}, node.name), el("p", { class: "faint" }, node.rest[0]), ...position, ...links];
  if (node.kind === "outside") return [close, el("h2", {}, node.name), el("p", { class: "faint" }, "from outside, " + node.rest[0]), ...position, ...links];
  const inlined = item.inlined.map((outer) => `, inlined into ${outer}`).join("");
  const often = item.times > 1 ? `executed ${item.times} times for it; shown is the last time` : "executed once for it";
  const before = item.before === null ? "" : `, ${item.before} instructions before`;
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
sought.addEventListener("input", () => {
  const text = sought.value.trim().toLowerCase();
  found = text ? nodes.filter((node) => textOf(node).includes(text)) : [];
  next = 0;
  for (const node of nodes) node.shape.classList.toggle("found", found.includes(node));
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

// --- All together.

const used = new Set(edges.map((edge) => edge.by));
const legend = KINDS.map(([kind, what]) => {
  const box = el("input", { type: "checkbox", ...(used.has(kind) ? { checked: "" } : { disabled: "" }) });
  box.addEventListener("change", () => graph.classList.toggle(`no-${kind}`, !box.checked));
  return el("label", { class: kind, title: "The arrow points to who takes it" }, box, svg("svg", { viewBox: "0 0 34 10" }, svg("path", { d: "M0 5H34" })), what);
});
const shown = data.of > lines.length ? ` Shown are the last ${lines.length} of its ${data.of} lines.` : "";
const summary = `${data.full ? "Full" : "Thin"} slice: ${data.executed} of ${data.walked} executed instructions; ${data.ended}.${shown}`;
document.title = shortened("Why " + data.asked, 80);
document.body.append(
  el("header", {},
    el("h1", {}, `Why ${data.asked}, at ${data.place}`),
    el("div", { id: "search" }, count, sought, button("Show all", showAll)),
    el("div", { id: "legend" }, ...legend),
    el("p", { class: "faint", id: "summary" }, summary, ...data.notes.map((note) => el("div", {}, note)))),
  el("main", {}, graph, aside),
);
showAll();
if (scale < 0.6) {
  scale = 0.8;
  goTo(asked, 0.1);
}
