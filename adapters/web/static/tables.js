// The agents' sessions, each with a way to end it.
import { api } from "./api.js";
import { clock, line, make } from "./dom.js";
import { sure } from "./sure.js";

export function sessionTable(rows, say, again) {
  if (!rows.length) return make("div", { class: "empty" }, make("p", {}, "No agent has a session open."));
  const heads = ["Agent", "Session", "Last request"].map((text) => make("th", { scope: "col" }, text));
  const head = make("tr", {}, ...heads, make("th", { scope: "col" }, make("span", { class: "unseen" }, "End it")));
  const made = rows.map((row) => make("tr", {}, ...cells(row), ending(row.paused ? lifting(row) : closing(row), say, again)));
  return make("table", { class: "sessions" }, make("caption", {}, "Ending a session cancels what waits in it."), make("thead", {}, head), make("tbody", {}, ...made));
}

function cells(row) {
  return [make("td", {}, row.agent), make("td", {}, ...line(row.shown)), make("td", { class: "when" }, row.paused ? "until " : "", clock(row.last_seen))];
}

function closing(row) {
  return {
    label: "End",
    name: ` the session ${row.name} of ${row.agent}`,
    path: "sessions/end",
    body: { agent: row.agent, session: row.name },
    said: (value) => `Session ended. Cancelled with it: ${value.cancelled}.`,
  };
}

function lifting(row) {
  return {
    label: "Let it ask",
    name: ` for ${row.agent}`,
    path: "agents/lift",
    body: { agent: row.agent },
    said: () => `${row.agent} may ask again.`,
  };
}

function ending({ label, name, path, body, said }, say, again) {
  const done = (value) => { say(said(value)); return again(); };
  return make("td", { class: "end" }, sure(JSON.stringify([path, body]), label, name, () => api(path, body), done));
}

// What happened, the newest first: as the audit has it, secrets masked.
export function auditTable(rows) {
  const heads = ["When", "What", "Who and what"].map((text) => make("th", { scope: "col" }, text));
  const made = rows.map((row) => make("tr", {},
    make("td", { class: "when" }, clock(row.at)), make("td", {}, row.type),
    make("td", {}, ...line(row.agent), ...(row.request ? [" ", make("a", { href: `/inbox/r/${row.request}` }, row.request.slice(0, 8))] : []),
      make("code", { class: "event-data" }, ...line(row.data)))));
  return make("table", { class: "audit" }, make("caption", {}, "The newest first. gateway audit has all of it."),
    make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...made));
}
