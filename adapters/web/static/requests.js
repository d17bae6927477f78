// Requests as cards (the open one, or ended ones), and people's actions on them.
import { api, nonce } from "./api.js";
import { card } from "./card.js";
import { sign } from "./passkeys.js";
import { copied, make, say, settle } from "./dom.js";
import { setClock } from "./time_left.js";

const list = document.getElementById("list");
const items = new Map(), drafts = new Map();
// State shared by all cards. `put` is called with every request that was read.
const told = { online: false, facts: {}, put: () => {}, drawn: () => {} };

export const has = (id) => items.has(id);

export function tellCards(what) {
  Object.assign(told, what);
}

function draftOf(id) {
  if (!drafts.has(id)) drafts.set(id, { panel: null, text: {}, reaches: new Map() });
  return drafts.get(id);
}

function elementOf(id) {
  return list.querySelector(`[data-id="${id}"]`);
}

// ------------------------------------------------------------------ actions

const acts = { decide, open: unfold, less, more, tell, reveal, compare, panel, copy, reach, redraw, declare };

async function decide(item, body) {
  const draft = draftOf(item.id);
  if (!told.online || draft.busy) return;
  const control = item.controls.find((one) => one.action === body.action);
  if (control?.confirm && !body.confirmed) {
    draft.asked = body;
    panel(item, "confirm");
    return;
  }
  // The nonce makes a repeated press return the result of the first one.
  const press = JSON.stringify(body);
  if (draft.press !== press) Object.assign(draft, { press, nonce: nonce() });
  const sent = { ...body, note: draft.text.note ?? "", revision: item.revision, nonce: draft.nonce };
  if (item.seen) sent.seen = item.seen;
  const text = sent.edited ?? null;
  delete sent.edited;
  if (body.passkey) return decideProven(item, sent, text);
  answered(item, await busy(item.id, `requests/${item.id}/decide`, sent, text));
}

// Decide with the person's passkey, which signs exactly the decision that is sent.
async function decideProven(item, { passkey: _, ...asked }, text) {
  const call = (what, sent) => busy(item.id, `requests/${item.id}/${what}`, sent, text);
  const { sent, problem } = await prove(call, asked);
  if (sent) return answered(item, await call("decide", sent));
  if (problem) Object.assign(draftOf(item.id), { problem, tone: "problem" });
  render(item.id);
}

// Let a passkey sign a decision; return the decision with the signature, or the problem.
async function prove(call, sent) {
  const asked = await call("proof", sent);
  if (!asked) return { problem: null };
  if (!asked.ok) return { problem: asked.value.detail };
  const { credential, problem } = await sign(asked.value);
  return problem ? { problem } : { sent: { ...sent, proof: credential } };
}

function answered(item, answer) {
  const draft = draftOf(item.id);
  if (!answer) return;
  draft.press = null;
  if (answer.ok) {
    // The vote is recorded, so close the panel.
    if (answer.value.status === "pending") Object.assign(draft, { panel: null, changed: null });
    else drafts.delete(item.id);
    put(answer.value);
    say(answer.value.warning ?? `${answer.value.word}: ${item.facts[0][1]}`);
  } else {
    draft.panel = draft.panel === "confirm" ? null : draft.panel;
    if (answer.value.code === "unconfirmed" && draft.changed) Object.assign(draft.changed, { high: "With your changes the risk is high. Approve anyway?", passkey: answer.value.detail.includes("passkey") });
    draft.problem = answer.value.detail;
    draft.tone = "problem";
    if (answer.value.request) put(answer.value.request);
  }
  render(item.id);
}

// Send an action that is not a decision: a claim, or the refusal of a suggestion.
async function tell(item, what, body) {
  const answer = await busy(item.id, `requests/${item.id}/${what}`, body);
  if (answer) await settled(item.id, answer);
}

// Declare an argument or a tool. If that contradicts its name, ask for confirmation.
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

async function compare(item, { text = null, fields = null }) {
  const draft = draftOf(item.id);
  draft.changed = null;
  draft.problem = null;
  if (text !== null) try { JSON.parse(text); } catch (error) { draft.problem = `This is not JSON: ${error.message}`; }
  if (draft.problem) { render(item.id); return; }
  const typed = JSON.stringify(draft.text);
  const answer = await busy(item.id, `requests/${item.id}/diff`, fields ? { fields, revealed: item.revealed } : {}, text);
  if (!answer) return;
  if (!answer.ok) draft.problem = answer.value.detail;
  else if (!answer.value.changed.length) draft.problem = "You have changed nothing.";
  else if (JSON.stringify(draft.text) !== typed) draft.problem = "Your text has changed. Show the changes again.";
  else draft.changed = { rows: answer.value.changed, text, fields };
  render(item.id);
}

// Make one call about a request; if no answer comes, show why on the card and return null.
async function busy(id, path, body, text) {
  const draft = draftOf(id);
  Object.assign(draft, { busy: true, problem: null, tone: null });
  render(id);
  const answer = await api(path, body, text).catch(() => null);
  draft.busy = false;
  if (!answer) {
    draft.problem = "The gateway did not answer, so your decision may not be recorded. Try again.";
    render(id);
  }
  return answer;
}

async function settled(id, answer) {
  draftOf(id).problem = answer.ok ? null : answer.value.detail;
  await read(id);
  render(id);
}

// A card that a person opened can be folded again.
async function unfold(item) {
  draftOf(item.id).wide = true;
  await open(item);
}

async function open(item) {
  const answer = await api(`requests/${item.id}?whole=1`).catch(() => null);
  if (answer?.ok) put(answer.value);
}

async function less(item) {
  items.set(item.id, { ...items.get(item.id), opened: false, revealed: false });
  draftOf(item.id).wide = false;
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

export function closePanel(id) {
  if (drafts.get(id)?.panel) panel(items.get(id), null);
}

function more(item) {
  const draft = draftOf(item.id);
  draft.more = !draft.more;
  render(item.id);
}

function redraw(item) {
  render(item.id);
}

// Return the matches in history of an offer. They are read once, and drawn when the answer comes.
function reach(item, offer) {
  const { reaches } = draftOf(item.id);
  if (reaches.has(offer)) return reaches.get(offer);
  reaches.set(offer, "");
  api(`requests/${item.id}/reach?offer=${offer}`).then((answer) => {
    if (!answer.ok || !items.has(item.id)) return;
    reaches.set(offer, answer.value.words);
    render(item.id);
  }).catch(() => reaches.delete(offer));
  return "";
}

async function copy(text, element) {
  say(await copied(text, element));
}

// ------------------------------------------------------------------ drawing

// Whether an open panel is still valid: others, or another tab, may have decided.
function offers({ controls, remember }, { panel, asked }) {
  if (panel === "confirm") return controls.some((one) => one.action === asked?.action);
  return panel !== "remember" || remember.approve.length + remember.deny.length > 0;
}

export function put(item) {
  const before = items.get(item.id);
  const draft = drafts.get(item.id);
  if (draft && before && before.digest !== item.digest) {
    // The call has changed, so discard everything prepared for the old one.
    Object.assign(draft, { changed: null, asked: null, panel: draft.panel === "confirm" ? null : draft.panel });
  }
  if (draft && (item.status !== "pending" || !offers(item, draft))) draft.panel = null;
  items.set(item.id, item);
  if (JSON.stringify(before) !== JSON.stringify(item)) render(item.id);
  told.put(item);
}

function made(item) {
  const draft = draftOf(item.id);
  return card(item, { draft, online: told.online, busy: Boolean(draft.busy), unread: draft.read !== wholeOf(item), acts, ...told.facts });
}

// Until the end of the call was visible above the buttons, they scroll there.
const ABOVE = 18;
let ends = null;

function observe(end, bar) {
  ends?.disconnect();
  ends = new IntersectionObserver((all) => {
    for (const { target, isIntersecting } of all) if (isIntersecting) { ends.unobserve(target); finish(target.closest(".card").dataset.id); }
  }, { rootMargin: `9999px 0px -${bar}px` });
  ends.observe(end);
}

// Identifies the complete content of a card; null while it is cut.
const wholeOf = ({ complete, digest, revealed }) => (complete ? `${digest} ${revealed}` : null);

function finish(id) {
  if (!items.has(id)) return;
  draftOf(id).read = wholeOf(items.get(id));
  render(id);
}

function watch(id) {
  const card = elementOf(id), end = card?.querySelector(".line"), whole = wholeOf(items.get(id));
  if (!end || !whole || draftOf(id).read === whole) return;
  const bar = ABOVE + (card.querySelector(".controls > .main")?.offsetHeight ?? 0);
  if (end.checkVisibility() && end.getBoundingClientRect().top < innerHeight - bar) finish(id);
  else observe(end, bar);
}

function render(id) {
  const old = elementOf(id);
  if (!old) return; // another request is open
  const fresh = made(items.get(id)), mark = focusIn(old);
  // Keep unfolded parts open.
  for (const one of old.querySelectorAll("details[open] > summary")) {
    const again = fresh.querySelector(`[data-key="${one.dataset.key}"]`);
    if (again) again.parentElement.open = true;
  }
  settle(list);
  old.replaceWith(fresh);
  if (mark) focusAgain(fresh, mark);
  told.drawn();
  watch(id);
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

// Read a request: complete if it is opened, also if a person opens it meanwhile, as to edit it.
async function fetched(id, whole = false) {
  const opened = whole || items.get(id)?.opened;
  const answer = await api(`requests/${id}${opened ? "?whole=1" : ""}`);
  return opened || !items.get(id)?.opened ? answer : fetched(id, true);
}

// Show one request alone; the last call wins.
let wanted = null;

export async function showOne(id, whole) {
  wanted = id;
  const answer = await fetched(id, whole), known = items.get(id);
  if (wanted !== id) return null;
  if (answer.at) setClock(answer.at + 500);
  if (!answer.ok) {
    list.replaceChildren(nothing("Request not found", answer.value.detail));
    return null;
  }
  // Revealed secrets stay visible only for the same revision.
  const item = known?.revealed && known.revision === answer.value.revision ? known : answer.value;
  put(item);
  const old = elementOf(id);
  if (!old || list.childElementCount > 1) {
    list.replaceChildren(made(item));
    settle(list);
    watch(id);
    elementOf(id).classList.add("fresh");
  }
  return elementOf(id);
}

export function clear(message) {
  wanted = null;
  items.clear();
  list.replaceChildren(...(message ? [nothing(...message)] : []));
}

export function nothing(title, text) {
  return make("div", { class: "empty" }, make("p", { class: "title" }, title), make("p", {}, text));
}

// Show ended requests; with `added`, append them.
export function showMany(found, added) {
  wanted = null;
  if (!added) items.clear();
  for (const item of found) items.set(item.id, item);
  if (added) list.append(...found.map(made));
  else list.replaceChildren(...found.map(made));
  settle(list);
}

// Read one again. While `comes` says so, put an ended request that is not listed yet on top.
export async function read(id, comes = null) {
  const answer = await fetched(id), known = items.get(id);
  if (!answer.ok) return;
  if (known?.revealed && known.revision === answer.value.revision) return;
  if (comes && answer.value.status === "pending") return;
  put(answer.value);
  if (!comes?.() || elementOf(id)) return;
  list.querySelector(".empty")?.remove();
  list.prepend(made(answer.value));
  settle(list);
}

export function setOnline(up) {
  told.online = up;
  for (const press of list.querySelectorAll("[data-decides]")) {
    const article = press.closest(".card"), had = press === document.activeElement;
    press.disabled = !up || Boolean(drafts.get(article.dataset.id)?.busy);
    if (had && press.disabled) article.focus({ preventScroll: true });
  }
}
