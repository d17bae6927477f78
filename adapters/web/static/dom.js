// Makes elements from text nodes only, so that an agent's text is never parsed as markup.
export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

// Short texts with labels; a label is never separated from its text.
export function told(facts) {
  return make("dl", { class: "facts" }, ...facts.map(([label, text]) => make("div", {}, make("dt", {}, label), make("dd", {}, ...line(text)))));
}

// A line is plain text, or segments of [text, is an escape] if it has characters made visible.
export function line(content, dress = null) {
  if (typeof content === "string") return pieces(content, dress);
  return content.flatMap(([text, escape]) =>
    escape
      ? [make("mark", { class: "escape", title: "a hidden or deceptive character, or a secret" }, text)]
      : pieces(text, dress));
}

export function plain(content) {
  return typeof content === "string" ? content : content.map(([text]) => text).join("");
}

// What to highlight in each format; the text itself does not change.
const CATCHES = {
  shell: /&&|\|\||[;|&<>]|\$\(|`/g,
  json: /^\s*"(?:[^"\\]|\\.)*"(?=:)/g,
};

function pieces(text, dress) {
  const found = dress ? [...text.matchAll(dress)] : [];
  if (!found.length) return [document.createTextNode(text)];
  const made = [];
  let done = 0;
  for (const match of found) {
    made.push(document.createTextNode(text.slice(done, match.index)), make("span", { class: "catch" }, match[0]));
    done = match.index + match[0].length;
  }
  made.push(document.createTextNode(text.slice(done)));
  return made;
}

const SIGNS = { "+": "added", "-": "removed", "@": "gap" };

export function lines(given, format) {
  if (format === "diff") return given.map((row) => make("span", { class: `row ${SIGNS[plain(row)[0]] ?? "same"}` }, ...line(row), "\n"));
  const dress = CATCHES[format] ?? null;
  return given.flatMap((row, at) => (at ? [document.createTextNode("\n"), ...line(row, dress)] : line(row, dress)));
}

export function diff(rows, label) {
  const marked = rows.map(([sign, text]) => make("span", { class: `row ${SIGNS[sign] ?? "same"}` }, `${sign} `, ...line(text), "\n"));
  return make("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": label }, ...marked);
}

// Copy text to the clipboard; return a message about the result.
export async function copied(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied.";
  } catch {
    // Without TLS, a page may not write to the clipboard, but it can select the text.
    getSelection().selectAllChildren(element);
    return "Selected. Copy it with your keyboard.";
  }
}

const SETTLE_MS = 500; // taps are ignored for this time after a list moved under the finger
const settling = new WeakMap();

export function settle(element) {
  element.classList.add("settling");
  clearTimeout(settling.get(element));
  settling.set(element, setTimeout(() => element.classList.remove("settling"), SETTLE_MS));
}

export function say(text) {
  const announce = document.getElementById("announce");
  announce.textContent = "";
  announce.textContent = text;
}
