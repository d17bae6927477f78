// The other views: search, sessions, the audit, and grants.
import { api, nonce } from "./api.js";
import { line, make, plain, told } from "./dom.js";
import { clock } from "./time_left.js";
import { sure } from "./confirm.js";

// ------------------------------------------------------------------ search

// A form whose fields are in the address.
const OUTCOMES = {
  final: [["approved", "approved"], ["denied", "denied"], ["expired", "expired"], ["cancelled", "cancelled"]],
  grants: [["in force", "active"], ["suspended", "suspended"], ["ended", "ended"]],
  audit: null,
};
const WHO = { final: "Decided by", grants: "Remembered by", audit: "Done by" };
const FIELDS = ["text", "agent", "outcome", "who", "from", "to"];

export const searches = (view) => view in OUTCOMES;

// The filled fields of the address.
export function asked() {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]).filter(([, value]) => value));
}

// The query for the gateway; days are in the viewer's time zone.
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

// `go` opens an address. It also works as a plain form, because its fields are the address.
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

// The number of results, and how many entries were searched.
export function tellFound(count, { looked, next, more }) {
  if (!Object.keys(asked()).length) return "";
  const found = count ? `${count} found` : "Nothing found";
  return next || more ? `${found} among the newest ${looked}. Older requests were not searched.` : `${found} among all ${looked}.`;
}

// ------------------------------------------------------------------ sessions and the audit

// Each session with a way to end it.
export function sessionTable(rows, say, again) {
  if (!rows.length) return make("div", { class: "empty" }, make("p", {}, "No agent has a session open."));
  const heads = ["Agent", "Session", "Last request"].map((text) => make("th", { scope: "col" }, text));
  const head = make("tr", {}, ...heads, make("th", { scope: "col" }, make("span", { class: "unseen" }, "End it")));
  const made = rows.map((row) => make("tr", {}, ...cells(row), ending(row.paused ? lifting(row) : closing(row), say, again)));
  return make("table", { class: "sessions" }, make("caption", {}, "Ending a session cancels its pending requests."), make("thead", {}, head), make("tbody", {}, ...made));
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
    said: (value) => `Session ended. Requests cancelled: ${value.cancelled}.`,
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
  return make("table", { class: "audit" }, make("caption", {}, "Newest first. gateway audit prints the whole log."),
    make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...made));
}

// ------------------------------------------------------------------ grants

// A card for each grant, and buttons that revoke one, a session's, or all.
export function grantCards(rows, say, again) {
  const live = rows.filter((row) => !row.ended), ended = rows.filter((row) => row.ended);
  const made = [];
  const suspended = live.filter((row) => row.outdated).length, going = live.filter((row) => row.allows).length - suspended;
  if (suspended) made.push(make("p", { class: "notice", role: "status" }, `${suspended} ${suspended === 1 ? "grant is" : "grants are"} suspended, because the declarations of a tool have changed. ${going} ${going === 1 ? "stays" : "stay"} active. To replace a grant, let the agent ask again and remember your decision.`));
  if (live.length) made.push(many(live, say, again), ...live.map((row) => grantCard(row, say, again)));
  else made.push(make("div", { class: "empty" }, make("p", {}, "There are no grants.")));
  if (ended.length) made.push(make("h2", { class: "part" }, "Recently ended"), ...ended.map((row) => grantCard(row, say, again)));
  return make("div", { class: "grants" }, ...made);
}

function grantCard(row, say, again) {
  const name = ` what ${row.made_by} remembered for ${row.agent}`;
  const until = row.until ? `until ${clock(row.until)}` : "until revoked";
  const ends = row.ended ? `${row.outcome}, ${clock(row.ended_at)}, ${row.uses}` : `${until}, ${row.uses}`;
  const more = make("div", { class: "quiet", "aria-live": "polite" });
  const controls = row.ended ? [] : [make("div", { class: "acts" },
    make("button", { type: "button", class: "plain", onclick: (event) => reach(row, more, event.target) }, "Matches in history"),
    sure(row.id, "Revoke", name, () => api("grants/revoke", { id: row.id }), () => { say("Revoked. The agent will have to ask again."); return again(); }))];
  return make("article", { class: `card grant${row.ended ? " ended" : ""}`, "data-grant": row.id },
    make("h2", {}, `${row.icon} ${row.word} · `, ...line(row.tool)),
    make("p", { class: "covers" }, make("strong", { class: row.allows ? "allow-word" : "deny-word" }, row.ended ? "Covered: " : row.allows ? "Allowed: " : "Denied: "), ...line(row.words)),
    ...row.notices.map((text) => make("p", { class: "notice" }, text)),
    told(row.facts),
    make("p", { class: "quiet" }, ends), more, ...controls);
}

async function reach(row, more, press) {
  press.disabled = true;
  const answer = await api(`grants/${row.id}`).catch(() => null);
  press.disabled = false;
  const { asked, reach: words } = answer?.ok ? answer.value : { reach: "The gateway did not answer. Try again." };
  more.replaceChildren(...(asked ? [make("p", {}, "Made from: ", make("code", {}, ...line(asked)))] : []),
    make("p", {}, words || "It was made without a request, so there is no history to compare."));
}

// Buttons that revoke all grants, and those of each session with several.
function many(live, say, again) {
  const sessions = new Map();
  for (const row of live) if (row.session !== null) {
    const key = JSON.stringify([row.agent, row.session]);
    sessions.set(key, [...(sessions.get(key) ?? []), row]);
  }
  const end = (body) => () => api("grants/revoke-all", body);
  const done = (value) => { say(`Revoked: ${value.revoked}. Grants that only other people can revoke remain.`); return again(); };
  const groups = [...sessions].filter(([, rows]) => rows.length > 1);
  return make("div", { class: "acts many" },
    sure(`all ${live.length}`, "Revoke all", ` ${live.length} that you can`, end({}), done),
    ...groups.map(([key, rows]) => sure(`${key} ${rows.length}`, "Revoke the session's", ` ${rows.length}: ${rows[0].agent}, ${plain(rows[0].where)}`,
      end({ agent: rows[0].agent, session: rows[0].session }), done)));
}

// ------------------------------------------------------------------ by hand

// The form by which an admin creates a grant without a request: an example call, then the offered
// scopes. It is drawn once, so that typed text stays.
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
  // Offers belong to one exact call, so any change removes them.
  for (const one of [agent, tool, kind, json, command, cwd, host, effect]) {
    for (const event of ["input", "change"]) one.addEventListener(event, () => { state.shown += 1; found.replaceChildren(); });
  }
  const send = make("button", { type: "submit", class: "strong" }, "Show what can be remembered");

  const form = make("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); offers(); } },
    make("p", { class: "quiet" }, "Describe a call as the agent would send it. You then choose what the grant covers."),
    field("Agent", agent, "The agent's name, as its requests show it."),
    field("What it calls", kind), field("Tool", tool, "The tool's name, as the agent sends it."), call, shell,
    make("div", { class: "two" }, field("Folder (optional)", cwd), field("Host (optional)", host)),
    make("div", { class: "two" }, field("Answer", effect), field("For how long", lifetime)),
    field("Session (optional)", session, "The session's name. If empty, the grant applies to all sessions of the agent."),
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
    if (mine !== state.shown) return; // the call has changed meanwhile
    if (!answer?.ok) { fail(answer?.value.detail ?? "The gateway did not answer. Try again."); return; }
    const rows = answer.value.offers.map((offer) => row(offer, body, text));
    const head = make("h2", { tabindex: "-1" }, body.effect === "allow" ? "Choose what to allow without asking" : "Choose what to deny without asking");
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
    // The nonce keeps a repeated press from making a second grant.
    const named = JSON.stringify([wish, text]);
    if (state.press !== named) Object.assign(state, { press: named, nonce: nonce() });
    press.disabled = true;
    const answer = await api("grants/by-hand", { ...wish, nonce: state.nonce }, text).catch(() => null);
    press.disabled = false;
    if (!answer?.ok) { fail(answer?.value.detail ?? "The gateway did not answer. Try again; this cannot create a duplicate."); return; }
    state.press = null;
    const done = make("p", { class: "claimed", tabindex: "-1" }, body.effect === "allow" ? "Allowed from now on: " : "Denied from now on: ", ...line(answer.value.words));
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
