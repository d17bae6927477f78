// The views beside what waits: looking for something, the agents' sessions, the audit, and what is remembered.
import { api, nonce } from "./api.js";
import { line, make, plain, told } from "./dom.js";
import { clock } from "./time_left.js";
import { sure } from "./confirm.js";

// ------------------------------------------------------------------ looking for something

// A form whose fields stand in the address.
const OUTCOMES = {
  final: [["approved", "approved"], ["denied", "denied"], ["expired", "expired"], ["cancelled", "cancelled"]],
  grants: [["in force", "in force"], ["suspended", "suspended"], ["ended", "ended"]],
  audit: null,
};
const WHO = { final: "Decided by", grants: "Remembered by", audit: "Done by" };
const FIELDS = ["text", "agent", "outcome", "who", "from", "to"];

export const searches = (view) => view in OUTCOMES;

// The fields of the address that are filled in.
export function asked() {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]).filter(([, value]) => value));
}

// What the gateway is asked: days are those of whoever looks.
export function queryOf(fields, after) {
  const { from, to, ...rest } = fields, query = new URLSearchParams(rest);
  if (from) query.set("since", midnight(from, 0));
  if (to) query.set("until", midnight(to, 1));
  if (after) query.set("after", after);
  return query.toString();
}

function midnight(day, later) {
  const [year, month, date] = day.split("-").map(Number);
  return String(Math.max(0, new Date(year, month - 1, date + later).getTime() || 0));
}

// `go` opens an address. It works as a plain form too: its fields are the address.
export function findForm(view, go) {
  const fields = asked();
  const named = (name, label, input) => {
    Object.assign(input, { id: `find-${name}`, name, value: fields[name] ?? "" });
    return field(label, input);
  };
  const text = (type = "text") => make("input", { type, maxlength: "200", autocomplete: "off" });
  const outcome = OUTCOMES[view]
    ? make("select", {}, make("option", { value: "" }, "any"), ...OUTCOMES[view].map(([value, label]) => make("option", { value }, label)))
    : text();
  const form = make("form", { action: "/inbox", method: "get", role: "search", class: "find-form" },
    make("input", { type: "hidden", name: "view", value: view }),
    named("text", "Text", text("search")), named("agent", "Agent", text()),
    named("outcome", view === "audit" ? "What happened" : "Outcome", outcome), named("who", WHO[view], text()),
    named("from", "From", text("date")), named("to", "To", text("date")),
    make("div", { class: "acts" }, make("button", { type: "submit", class: "strong" }, "Search"),
      make("a", { class: "back", href: `/inbox?view=${view}` }, "Show all")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const filled = [...new FormData(form)].filter(([, value]) => value.trim());
    go(`/inbox?${new URLSearchParams(filled)}`);
  });
  const many = Object.keys(fields).length, by = many === 1 ? "one field" : `${many} fields`;
  return make("details", { class: "find", open: many > 0 },
    make("summary", {}, many ? `Search, by ${by}` : "Search"), form);
}

// How much was found, and among how many: no search looks at everything.
export function tellFound(count, { looked, next, more }) {
  if (!Object.keys(asked()).length) return "";
  const found = count ? `${count} found` : "Nothing found";
  return next || more ? `${found} among the newest ${looked}. Older ones were not looked at.` : `${found} among all ${looked}.`;
}

// ------------------------------------------------------------------ sessions and the audit

// Each session with a way to end it.
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

// What happened, the newest first: a sentence each, and folded below it the members that the audit has, secrets masked.
export function auditTable(rows) {
  const heads = ["When", "What happened"].map((text) => make("th", { scope: "col" }, text));
  const made = rows.map((row) => make("tr", {},
    make("td", { class: "when" }, clock(row.at)),
    make("td", {}, make("details", {}, make("summary", {}, ...line(row.sentence)), make("div", { class: "event-fact" }, `event: ${row.type}`),
      ...row.facts.map((fact) => make("div", { class: "event-fact" }, ...line(fact)))),
      row.request && make("a", { href: `/inbox/r/${row.request}` }, `request ${row.request.slice(0, 8)}`))));
  return make("table", { class: "audit" }, make("caption", {}, "The newest first. gateway audit has all of it."),
    make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...made));
}

// ------------------------------------------------------------------ what is remembered

// A card for each, and one press that takes back one, a session's, or all.
export function grantCards(rows, say, again) {
  const live = rows.filter((row) => !row.ended), ended = rows.filter((row) => row.ended);
  const made = [];
  const suspended = live.filter((row) => row.outdated).length, going = live.filter((row) => row.allows).length - suspended;
  if (suspended) made.push(make("p", { class: "notice", role: "status" }, `${suspended} of the remembered answers ${suspended === 1 ? "is" : "are"} suspended: what is declared about a tool was changed. ${going} ${going === 1 ? "stays" : "stay"} in force. Let the agent ask again and remember that anew, or revoke what is suspended.`));
  if (live.length) made.push(many(live, say, again), ...live.map((row) => grantCard(row, say, again)));
  else made.push(make("div", { class: "empty" }, make("p", {}, "Nothing is remembered.")));
  if (ended.length) made.push(make("h2", { class: "part" }, "Ended lately"), ...ended.map((row) => grantCard(row, say, again)));
  return make("div", { class: "grants" }, ...made);
}

function grantCard(row, say, again) {
  const name = ` what ${row.made_by} remembered for ${row.agent}`;
  const until = row.until ? `until ${clock(row.until)}` : "until revoked";
  const ends = row.ended ? `${row.outcome}, ${clock(row.ended_at)}, ${row.uses}` : `${until}, ${row.uses}`;
  const more = make("div", { class: "quiet", "aria-live": "polite" });
  const controls = row.ended ? [] : [make("div", { class: "acts" },
    make("button", { type: "button", class: "plain", onclick: (event) => reach(row, more, event.target) }, "How far it reaches"),
    sure(row.id, "Revoke", name, () => api("grants/revoke", { id: row.id }), () => { say("Revoked: it is asked about again."); return again(); }))];
  return make("article", { class: `card grant${row.ended ? " ended" : ""}`, "data-grant": row.id },
    make("h2", {}, `${row.icon} ${row.word} · `, ...line(row.tool)),
    make("p", { class: "covers" }, make("strong", { class: row.allows ? "allow-word" : "deny-word" }, row.ended ? "Covered: " : row.allows ? "Goes through: " : "Is denied: "), ...line(row.words)),
    ...row.notices.map((text) => make("p", { class: "notice" }, text)),
    told(row.facts),
    make("p", { class: "quiet" }, ends), more, ...controls);
}

async function reach(row, more, press) {
  press.disabled = true;
  const answer = await api(`grants/${row.id}`).catch(() => null);
  press.disabled = false;
  const { asked, reach: words } = answer?.ok ? answer.value : { reach: "Not known: the gateway did not answer." };
  more.replaceChildren(...(asked ? [make("p", {}, "Made from: ", make("code", {}, ...line(asked)))] : []),
    make("p", {}, words || "It was made without a request: there is no history to count."));
}

// All of them, and those of each session that has more than one.
function many(live, say, again) {
  const sessions = new Map();
  for (const row of live) if (row.session !== null) {
    const key = JSON.stringify([row.agent, row.session]);
    sessions.set(key, [...(sessions.get(key) ?? []), row]);
  }
  const end = (body) => () => api("grants/revoke-all", body);
  const done = (value) => { say(`Revoked: ${value.revoked}. What others alone may end stays.`); return again(); };
  const groups = [...sessions].filter(([, rows]) => rows.length > 1);
  return make("div", { class: "acts many" },
    sure(`all ${live.length}`, "Revoke all", ` ${live.length} that you may`, end({}), done),
    ...groups.map(([key, rows]) => sure(`${key} ${rows.length}`, "Revoke the session's", ` ${rows.length}: ${rows[0].agent}, ${plain(rows[0].where)}`,
      end({ agent: rows[0].agent, session: rows[0].session }), done)));
}

// ------------------------------------------------------------------ by hand

// The form by which an admin has something remembered that no request asked for: an example call, then
// what may be remembered of it, in the gateway's words. It is drawn once, so that what was typed stays.
const KINDS = { tool: "a tool, with its arguments", command: "a shell command" };
const EFFECTS = { allow: "Allow it", deny: "Deny it" };

export function handForm({ lifetimes, usual }, say) {
  const agent = input("agent"), tool = input("tool"), kind = select("kind", KINDS);
  const json = area("arguments", { rows: "4" }), command = area("command", { rows: "2" });
  const cwd = input("cwd"), host = input("host"), effect = select("effect", EFFECTS);
  const lifetime = select("lifetime", lifetimes), session = input("session");
  const shell = field("Command", command, "As the agent would send it. Nothing is run."), call = field("Arguments, as JSON", json, "As the agent would send them. Nothing is run.");
  const found = make("div", { class: "stack", id: "hand-found" });
  const state = { shown: 0, press: null, nonce: null };

  json.value = "{}";
  lifetime.value = usual;
  kind.addEventListener("change", () => { shell.hidden = kind.value !== "command"; call.hidden = !shell.hidden; });
  kind.dispatchEvent(new Event("change"));
  // What was offered is of the call as it stood: another letter, and it is asked anew.
  for (const one of [agent, tool, kind, json, command, cwd, host, effect]) {
    for (const event of ["input", "change"]) one.addEventListener(event, () => { state.shown += 1; found.replaceChildren(); });
  }
  const send = make("button", { type: "submit", class: "strong" }, "Show what can be remembered");

  const form = make("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); offers(); } },
    make("p", { class: "quiet" }, "Describe a call as the agent would send it. You then choose how much of it is remembered."),
    field("Agent", agent, "Its name, as on its requests."),
    field("What it calls", kind), field("Tool", tool, "Its name, as the agent calls it."), call, shell,
    make("div", { class: "two" }, field("Folder (optional)", cwd), field("Host (optional)", host)),
    make("div", { class: "two" }, field("Answer", effect), field("For how long", lifetime)),
    field("Session (optional)", session, "Its name. Left empty, it holds in all sessions of the agent."),
    make("div", { class: "acts" }, send), found);
  return make("details", { class: "hand" }, make("summary", {}, "Remember something by hand"), form);

  function read() {
    const body = { agent: agent.value.trim(), effect: effect.value, tool: tool.value.trim(), kind: kind.value };
    if (cwd.value) body.cwd = cwd.value;
    if (host.value) body.host = host.value;
    if (kind.value === "command") return { body, text: JSON.stringify({ command: command.value }) };
    try { JSON.parse(json.value); } catch (error) { return { problem: `The arguments are not JSON: ${error.message}` }; }
    return { body, text: json.value };
  }

  function fail(text) {
    found.querySelector(".problem")?.remove();
    found.prepend(make("p", { class: "problem", role: "alert" }, text));
  }

  async function offers() {
    const mine = ++state.shown, { body, text, problem } = read();
    found.replaceChildren();
    if (problem) { fail(problem); return; }
    send.disabled = true;
    const answer = await api("grants/offers", body, text).catch(() => null);
    send.disabled = false;
    if (mine !== state.shown) return; // the call was changed meanwhile
    if (!answer?.ok) { fail(answer?.value.detail ?? "The gateway did not answer. Try again."); return; }
    const rows = answer.value.offers.map((offer) => row(offer, body, text));
    const head = make("h2", { tabindex: "-1" }, body.effect === "allow" ? "What may go through without asking" : "What may be denied without asking");
    found.replaceChildren(head, make("ul", { class: "offers" }, ...rows));
    head.focus();
  }

  function row(offer, body, text) {
    const label = body.effect === "allow" ? "Allow this" : "Deny this";
    const press = make("button", { type: "button", class: body.effect === "allow" ? "approve" : "deny", onclick: () => choose(offer, body, text, press) },
      label, make("span", { class: "unseen" }, `: ${plain(offer.words)}`));
    return make("li", {}, make("p", {}, ...line(offer.words)), press);
  }

  async function choose(offer, body, text, press) {
    const wish = { ...body, offer: offer.id, lifetime: lifetime.value, session: session.value.trim() };
    // The same press sent again makes no second grant.
    const named = JSON.stringify([wish, text]);
    if (state.press !== named) Object.assign(state, { press: named, nonce: nonce() });
    press.disabled = true;
    const answer = await api("grants/by-hand", { ...wish, nonce: state.nonce }, text).catch(() => null);
    press.disabled = false;
    if (!answer?.ok) { fail(answer?.value.detail ?? "Not known whether it was remembered: the gateway did not answer. Press again; it is made once."); return; }
    state.press = null;
    const done = make("p", { class: "claimed", tabindex: "-1" }, body.effect === "allow" ? "From now on goes through: " : "From now on is denied: ", ...line(answer.value.words));
    found.replaceChildren(done);
    done.focus();
    say("Remembered.");
  }
}

function input(name) {
  return make("input", { type: "text", id: `hand-${name}`, autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
}

function area(name, options) {
  return make("textarea", { id: `hand-${name}`, class: "code", spellcheck: "false", ...options });
}

function select(name, choices) {
  return make("select", { id: `hand-${name}` }, ...Object.entries(choices).map(([value, words]) => make("option", { value }, words)));
}

function field(text, element, hint = null) {
  if (hint) element.setAttribute("aria-describedby", `${element.id}-hint`);
  return make("div", { class: "field" }, make("label", { for: element.id }, text), element, hint && make("span", { id: `${element.id}-hint`, class: "quiet" }, hint));
}
