// Makes elements from text nodes alone: nothing an agent wrote is ever parsed as markup.
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

// A line is plain text, or segments of [text, is an escape] where something was made visible.
export function line(content) {
  if (typeof content === "string") return [document.createTextNode(content)];
  return content.map(([text, escape]) =>
    escape
      ? make("mark", { class: "escape", title: "a character that does not show, or poses as another" }, text)
      : document.createTextNode(text));
}

export function lines(rows) {
  return rows.flatMap((row, at) => (at ? [document.createTextNode("\n"), ...line(row)] : line(row)));
}

export function diff(rows) {
  const signs = { "+": "added", "-": "removed", " ": "same", "@": "gap" };
  return make("pre", { class: "diff", tabindex: "0" }, ...rows.map(([sign, text]) =>
    make("span", { class: signs[sign] }, `${sign} `, ...line(text), "\n")));
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

export function left(ms) {
  const seconds = Math.max(0, Math.round((ms - Date.now()) / 1000));
  if (seconds >= 86400) return `${Math.round(seconds / 86400)} d left`;
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min left`;
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")} left`;
}
