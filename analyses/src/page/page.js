const data = JSON.parse(document.getElementById("data").textContent);

// Control characters, and those that change the direction in which text runs, are shown as what they are.
const STEERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
const plain = (text) => text.replace(STEERS, (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");

// An element with attributes and children; text is always text.
const fill = (made, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.map((child) => (typeof child === "string" ? plain(child) : child)));
  return made;
};
const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

const shortened = (text, longest) => {
  const all = [...plain(text)];
  return all.length > longest ? all.slice(0, longest - 1).join("") + "…" : all.join("");
};
