// The page: keeps a list of requests true to the gateway, and sends what people decide.
import { ring, worker } from "./alerts.js";
import { api, nonce, only, signIn } from "./api.js";
import { handForm } from "./by-hand.js";
import { card } from "./card.js";
import { copied, left, make, setClock } from "./dom.js";
import { listen, listKeys } from "./keys.js";
import { grantCards } from "./grants.js";
import { news, standing } from "./news.js";
import { sessionTable } from "./tables.js";
import { follow } from "./stream.js";
import { renew } from "./subscription.js";
import { together } from "./together.js";

const list = document.getElementById("list");
const older = document.getElementById("more");
const offline = document.getElementById("offline");
const announce = document.getElementById("announce");
const byHand = document.getElementById("by-hand");
const items = new Map(), drafts = new Map();
let view = "pending", next = null, online = false, loads = 0, lifetimes = {}, passLifetimes = {};
let roles = {}, denials = [], anotherPlan = "", admin = false;

const FLOOD = 20; // so many changes at once are read as a list
const CALM_MS = 1000; // changes after the first are gathered for so long
const SETTLE_MS = 500; // nothing can be tapped for so long after the list moved under the finger

const settings = Object.fromEntries(["sound", "notify", "keys"].map((name) => [name, document.getElementById(name)]));

function draftOf(id) {
  if (!drafts.has(id)) drafts.set(id, { panel: null, text: {}, reaches: new Map() });
  return drafts.get(id);
}

function elementOf(id) {
  return list.querySelector(`[data-id="${id}"]`);
}

function say(text) {
  announce.textContent = "";
  announce.textContent = text;
}

// ------------------------------------------------------------------ what people do

const acts = { decide, open, less, more, claim, reveal, compare, panel, copy, reach, redraw, declare };

async function decide(item, body) {
  const draft = draftOf(item.id);
  if (!online || draft.busy) return;
  const control = item.controls.find((one) => one.action === body.action);
  if (control?.confirm && !body.confirmed) {
    draft.asked = body;
    panel(item, "confirm");
    return;
  }
  // The same press sent again is told what became of the first one.
  const press = JSON.stringify(body);
  if (draft.press !== press) Object.assign(draft, { press, nonce: nonce() });
  const sent = { ...body, note: draft.text.note ?? "", revision: item.revision, nonce: draft.nonce };
  if (item.seen) sent.seen = item.seen;
  const text = sent.edited ?? null;
  delete sent.edited;
  const answer = await busy(item.id, `requests/${item.id}/decide`, sent, text);
  if (!answer) return;
  draft.press = null;
  if (answer.ok) {
    if (answer.value.status !== "pending") drafts.delete(item.id);
    put(answer.value);
    say(`${answer.value.word}: ${item.facts[0][1]}`);
  } else {
    draft.panel = draft.panel === "confirm" ? null : draft.panel;
    if (answer.value.code === "unconfirmed" && draft.changed) draft.changed.high = "With your changes it is high risk. Approve it all the same?";
    draft.problem = answer.value.detail;
    draft.tone = answer.value.code === "canary" ? "claimed" : "problem";
    if (answer.value.request) put(answer.value.request);
    render(item.id);
  }
}

async function claim(item, on) {
  const answer = await busy(item.id, `requests/${item.id}/claim`, { on });
  if (answer) await settled(item.id, answer);
}

// Say what a value of a tool is; what that frees against its name is asked once more.
async function declare(item, word) {
  const draft = draftOf(item.id);
  draft.danger = null;
  const answer = await busy(item.id, `requests/${item.id}/declare`, word);
  if (!answer) return;
  if (answer.ok) delete draft.text["declare-role"];
  if (answer.ok) Object.assign(draft, { panel: "declare", problem: answer.value.said, tone: "claimed" });
  else if (answer.value.code === "unconfirmed") draft.danger = { word, words: answer.value.detail };
  else draft.problem = answer.value.detail;
  await read(item.id);
  render(item.id);
}

async function reveal(item) {
  const answer = await busy(item.id, `requests/${item.id}/reveal`, {});
  if (answer?.ok) put(answer.value);
  else if (answer) await settled(item.id, answer);
}

async function compare(item, text) {
  const draft = draftOf(item.id);
  draft.changed = null;
  draft.problem = null;
  try { JSON.parse(text); } catch (error) { draft.problem = `This is not JSON: ${error.message}`; }
  if (draft.problem) { render(item.id); return; }
  const answer = await busy(item.id, `requests/${item.id}/diff`, {}, text);
  if (!answer) return;
  if (!answer.ok) draft.problem = answer.value.detail;
  else if (!answer.value.changed.length) draft.problem = "Nothing is changed.";
  else draft.changed = { rows: answer.value.changed, text };
  render(item.id);
}

// Send one thing about a request; null, and the reason on the card, when no answer came.
async function busy(id, path, body, text) {
  const draft = draftOf(id);
  Object.assign(draft, { busy: true, problem: null, tone: null });
  render(id);
  const answer = await api(path, body, text).catch(() => null);
  draft.busy = false;
  if (!answer) {
    draft.problem = "Not recorded: the gateway did not answer. Try again.";
    render(id);
  }
  return answer;
}

async function settled(id, answer) {
  draftOf(id).problem = answer.ok ? null : answer.value.detail;
  await read(id);
  render(id);
}

async function open(item) {
  const answer = await api(`requests/${item.id}?whole=1`).catch(() => null);
  if (answer?.ok) put(answer.value);
}

async function less(item) {
  items.set(item.id, { ...items.get(item.id), opened: false, revealed: false });
  await read(item.id);
}

async function panel(item, name) {
  const draft = draftOf(item.id);
  const opener = draft.panel === "confirm" ? draft.asked.action : `to-${draft.panel}`;
  Object.assign(draft, { panel: name, problem: null, changed: null });
  if (name === "edit" && !items.get(item.id).opened) await open(item);
  render(item.id);
  const element = elementOf(item.id);
  const found = name
    ? element?.querySelector(".panel textarea, .panel input") ?? element?.querySelector(".panel button")
    : element?.querySelector(`[data-key="${opener}"]`);
  (found?.closest("[hidden]") ? element.querySelector("[data-key=more]") : found)?.focus();
}

function more(item) {
  const draft = draftOf(item.id);
  draft.more = !draft.more;
  render(item.id);
}

function redraw(item) {
  render(item.id);
}

// Return what an offer to remember would have covered; asked once, drawn when the answer is there.
function reach(item, offer) {
  const { reaches } = draftOf(item.id);
  if (reaches.has(offer)) return reaches.get(offer);
  reaches.set(offer, "");
  api(`requests/${item.id}/reach?offer=${offer}`).then((answer) => {
    if (!answer.ok || !items.has(item.id)) return;
    reaches.set(offer, answer.value.words);
    if (elementOf(item.id)) render(item.id);
  }).catch(() => reaches.delete(offer));
  return "";
}

async function copy(text, element) {
  say(await copied(text, element));
}

// ------------------------------------------------------------------ what the page shows

function put(item) {
  const before = items.get(item.id);
  const draft = drafts.get(item.id);
  if (draft && before && before.digest !== item.digest) {
    // What would run is another thing now: nothing prepared for the old one may be sent.
    Object.assign(draft, { changed: null, asked: null, panel: draft.panel === "confirm" ? null : draft.panel });
  }
  if (draft && item.status !== "pending") Object.assign(draft, { panel: null });
  items.set(item.id, item);
  if (view in TABLES || (view === "final" && item.status === "pending")) return;
  if (JSON.stringify(before) !== JSON.stringify(item) || !elementOf(item.id)) render(item.id);
  count();
}

function made(item) {
  const draft = draftOf(item.id);
  const facts = { lifetimes, passLifetimes, roles, denials, anotherPlan, admin };
  return card(item, { draft, online, busy: Boolean(draft.busy), acts, ...facts });
}

function render(id) {
  const old = elementOf(id);
  const fresh = made(items.get(id));
  settle();
  if (!old) {
    list.querySelector(".empty")?.remove();
    fresh.classList.add("fresh");
    list.prepend(fresh);
  } else {
    const mark = focusIn(old);
    old.replaceWith(fresh);
    if (mark) focusAgain(fresh, mark);
  }
  places();
}

function settle() {
  list.classList.add("settling");
  clearTimeout(settle.timer);
  settle.timer = setTimeout(() => list.classList.remove("settling"), SETTLE_MS);
}

function focusIn(element) {
  const at = document.activeElement;
  if (!element.contains(at)) return null;
  const { selectionStart, selectionEnd, scrollTop } = at;
  return { key: at.dataset.key, selectionStart, selectionEnd, scrollTop };
}

function focusAgain(element, mark) {
  const found = mark.key && element.querySelector(`[data-key="${CSS.escape(mark.key)}"]`);
  const target = found && !found.disabled ? found : element;
  target.focus({ preventScroll: true });
  if (target.matches("textarea,input[type=text],input[type=password]")) target.setSelectionRange(mark.selectionStart, mark.selectionEnd);
  target.scrollTop = mark.scrollTop;
}

function count() {
  const waiting = [...items.values()].filter((item) => item.status === "pending").length;
  const text = waiting ? `${waiting}${next && view === "pending" ? "+" : ""}` : "";
  if (only) return;
  document.getElementById("count").textContent = view === "pending" ? text : "";
  document.title = text && view === "pending" ? `(${text}) Approvals` : "Approvals";
  document.getElementById("together").replaceChildren(...together(view === "pending" && !only ? [...items.values()] : []));
  places();
}

function places() {
  const waiting = [...list.querySelectorAll(".card.pending .place")];
  const all = `${waiting.length}${next ? "+" : ""}`;
  waiting.forEach((place, at) => { place.textContent = waiting.length > 1 ? `${at + 1} of ${all}` : ""; });
}

function empty(why) {
  const [title, text] = why ?? (view === "pending"
    ? ["Nothing waits for you", "When an agent asks, its request appears here by itself."]
    : ["Nothing was decided yet", "What was approved, denied, expired or cancelled is listed here."]);
  list.replaceChildren(make("div", { class: "empty" }, make("p", { class: "title" }, title), make("p", {}, text)));
}

// ------------------------------------------------------------------ what the gateway says

// The page of one request: that one, whole.
async function loadOne() {
  const answer = await api(`requests/${only}?whole=1`);
  items.clear();
  if (answer.ok) items.set(only, answer.value);
  if (answer.at) setClock(answer.at + 500);
  draw(null);
  if (!answer.ok) empty(["There is no such request", answer.value.detail]);
}

async function load(after) {
  if (only) return loadOne();
  const mine = ++loads;
  const answer = await api(`requests?status=${view}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
  if (mine !== loads || view in TABLES) return;
  if (!answer.ok) throw new Error(answer.value.detail);
  if (answer.at) setClock(answer.at + 500);
  const opened = [...items.values()].filter((item) => item.opened).map((item) => item.id);
  if (!after) items.clear();
  for (const item of answer.value.items) items.set(item.id, item);
  next = answer.value.next;
  older.hidden = !next;
  draw(after ? answer.value.items : null);
  for (const id of opened) if (items.has(id)) await open(items.get(id));
}

function draw(added) {
  if (added) list.append(...added.map(made));
  else {
    const at = document.activeElement?.closest?.(".card")?.dataset.id;
    const mark = at ? focusIn(elementOf(at)) : null;
    list.replaceChildren(...[...items.values()].map(made));
    if (mark && elementOf(at)) focusAgain(elementOf(at), mark);
  }
  if (!items.size) empty();
  settle();
  count();
}

const TABLES = { sessions: sessionTable, grants: grantCards };

async function refresh() {
  if (!(view in TABLES)) return load();
  const mine = ++loads;
  const answer = await api(view);
  if (mine !== loads) return; // another view was chosen meanwhile, or this one was read again
  if (!answer.ok) throw new Error(answer.value.detail);
  const again = () => refresh().catch(() => connection(false));
  list.replaceChildren(TABLES[view](answer.value.items, say, again));
}

async function read(id) {
  const known = items.get(id);
  const answer = await api(`requests/${id}${known?.opened ? "?whole=1" : ""}`);
  if (!answer.ok) return null;
  const { follows } = answer.value; // it has no card: the one that asks the same counts it
  if (follows && view === "pending" && !known) return items.has(follows) ? read(follows) : null;
  // Secrets stay in sight for the revision that they were revealed of, and no longer.
  if (known?.revealed && known.revision === answer.value.revision) return known;
  put(answer.value);
  return answer.value;
}

const queue = new Map();
let draining = false;

function changed(id, type) {
  if (view in TABLES || (only && id !== only)) return;
  queue.set(id, queue.get(id) === "submitted" ? "submitted" : type);
  if (!draining) drain();
}

async function drain() {
  draining = true;
  while (queue.size) {
    const all = [...queue];
    queue.clear();
    const arrived = all.filter(([id, type]) => type === "submitted" && !items.has(id)).length;
    try {
      if (all.length > FLOOD) await load();
      else for (const [id] of all) if (view === "pending" || !items.has(id) || items.get(id).status !== "pending") await read(id);
      if (arrived && view === "pending") tell(arrived);
    } catch {
      break; // the stream breaks too, and everything is read again
    }
    await new Promise((done) => setTimeout(done, CALM_MS));
  }
  draining = false;
}

function tell(arrived) {
  const text = arrived === 1 ? "A new request waits." : `${arrived} new requests wait.`;
  say(text);
  try {
    ring(text, settings);
  } catch (error) {
    console.warn(error); // they are extras, which a browser may refuse by throwing: the card is there
  }
}

function connection(up, why) {
  online = up;
  offline.hidden = up;
  if (!up) offline.textContent = `${why ? `Not connected: ${why}.` : "Not connected."} What you see may be old, so nothing can be decided here until the connection is back.`;
  for (const press of list.querySelectorAll("[data-decides]")) {
    const id = press.closest(".card").dataset.id;
    const had = press === document.activeElement;
    press.disabled = !up || Boolean(drafts.get(id)?.busy);
    if (had && press.disabled) press.closest(".card").focus({ preventScroll: true });
  }
}

// ------------------------------------------------------------------ the page itself

if (only) {
  document.querySelector("nav").replaceChildren(make("a", { class: "back", href: "/inbox" }, "All requests"));
}

// Admins alone have the form; it stands beside the list, which is drawn anew while they type.
function hand() {
  byHand.hidden = !admin || view !== "grants";
  if (admin && !byHand.firstChild) byHand.append(handForm(lifetimes, say));
  if (!admin) byHand.replaceChildren();
}

for (const press of document.querySelectorAll("nav button")) {
  press.addEventListener("click", async () => {
    view = press.dataset.view;
    for (const one of document.querySelectorAll("nav button")) one.setAttribute("aria-pressed", String(one === press));
    list.setAttribute("aria-label", press.firstChild.textContent.trim());
    items.clear();
    count();
    hand();
    older.hidden = true;
    await refresh().catch(() => connection(false));
  });
}

for (const [name, box] of Object.entries(settings)) {
  box.checked = (localStorage.getItem(name) ?? (name === "keys" ? "on" : "off")) === "on";
  box.addEventListener("change", async () => {
    if (name === "notify" && box.checked && (await Notification.requestPermission()) !== "granted") {
      box.checked = false;
      say("This browser does not allow notifications here.");
    }
    localStorage.setItem(name, box.checked ? "on" : "off");
  });
}
if (!("Notification" in window)) settings.notify.disabled = true;

older.addEventListener("click", () => load(next).catch(() => connection(false)));
document.getElementById("signout").addEventListener("click", async () => {
  await api("logout", {}).catch(() => null);
  location.replace("/inbox/login#signed-out");
});
setInterval(() => {
  for (const element of list.querySelectorAll(".countdown")) {
    element.textContent = left(Number(element.dataset.deadline));
  }
}, 1000);

worker();
listKeys(document.getElementById("keylist"));
listen(list, { enabled: () => settings.keys.checked, close: (id) => drafts.get(id)?.panel && panel(items.get(id), null) });
follow({
  ready: async () => {
    const me = await signIn();
    ({ lifetimes, pass_lifetimes: passLifetimes, roles, denials, another_plan: anotherPlan, admin } = me);
    document.getElementById("who").textContent = me.name;
    standing(me);
    hand();
    renew(me).catch(() => null);
    await refresh();
  },
  changed,
  news: (what) => {
    if (view === "grants" && what.grant) refresh().catch(() => connection(false));
    news(what, say, () => document.querySelector("[data-view=grants]").click());
  },
  state: connection,
});
