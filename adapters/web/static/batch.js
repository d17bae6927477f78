// The batch page: several requests of one agent in full, a tick for each, and one decision for all ticked.
import { api, nonce, signIn } from "./api.js";
import { about, body, card, listen } from "./card.js";
import { copied, line, make, plain, say, settle } from "./dom.js";
import { setClock, tickAll } from "./time_left.js";
import { button, problem } from "./decision_panels.js";
import { chosen, connect, follow, gather, recount } from "./live_updates.js";

const agent = new URLSearchParams(location.search).get("agent") ?? "";
const byId = (id) => document.getElementById(id);
const list = byId("list"), bar = byId("bar"), told = byId("told"), apart = byId("apart");
// Items that ended elsewhere stay, with their outcome. `ticks` maps an id to the digest that was ticked.
const items = new Map(), ticks = new Map(), problems = new Map();
const draft = { words: "", wording: false };
let online = false, busy = false, press = null, anotherPlan = "";

const waits = (item) => item.status === "pending";
const waiting = () => [...items.values()].filter(waits);

function tell(text, failed) {
  told.hidden = !text;
  told.className = failed ? "problem" : "outcome";
  told.textContent = text;
  say(text);
}

// ------------------------------------------------------------------ actions

function tick(item, on) {
  if (on) ticks.set(item.id, item.digest);
  else ticks.delete(item.id);
  problems.delete(item.id);
  drawBar();
}

async function decide(action, feedback = false) {
  const ticked = [...ticks.keys()].map((id) => items.get(id));
  if (!online || busy || !ticked.length) return;
  const body = { action, feedback, message: draft.wording ? draft.words : "", items: ticked.map(({ id, revision, seen }) => ({ id, revision, seen })) };
  // The nonce makes a repeated press return the result of the first one.
  const said = JSON.stringify(body);
  if (press?.said !== said) press = { said, nonce: nonce() };
  busy = true;
  drawBar();
  const answer = await api("batch/decide", { ...body, nonce: press.nonce }).catch(() => null);
  busy = false;
  if (!answer) tell("The gateway did not answer, so your decision may not be recorded. Try again.", true);
  else if (answer.ok) await settled(answer.value.items);
  else await refused(answer.value);
  drawBar();
}

async function settled(rows) {
  for (const { id } of rows) { items.delete(id); ticks.delete(id); }
  Object.assign(draft, { words: "", wording: false });
  press = null;
  drawBar();
  const left = rows.filter(waits).length;
  tell(left ? `${left} of ${rows.length} need someone else's approval too.` : `${rows[0].word} together: ${rows.length}.`, false);
  // Requests that need others move to the list below, and the stream sends no event for that.
  await load().catch(() => null);
  draw();
}

async function refused({ detail, reasons = {}, ended = [] }) {
  problems.clear();
  for (const [id, why] of Object.entries(reasons)) { problems.set(id, why); ticks.delete(id); }
  const count = problems.size;
  ended.forEach(end);
  await load().catch(() => null);
  draw();
  const many = count === 1 ? "one request" : `${count} requests`;
  tell(count ? `Nothing was decided, because of ${many}. The others are still ticked.` : detail, true);
  list.querySelector(".card .problem")?.closest(".card").focus();
}

const acts = {
  copy: async (text, element) => say(await copied(text, element)),
  open: async ({ id }) => { if (await reread(id, "?whole=1")) draw(); },
};

// ------------------------------------------------------------------ drawing

function article(item) {
  const why = problems.has(item.id) ? `Not decided: ${problems.get(item.id)}.` : null;
  const view = { acts, online, busy, draft: { problem: why } };
  if (!waits(item)) return card(item, view);
  const id = `tick-${item.id}`;
  const box = make("input", { type: "checkbox", id, "data-letter": "t", "aria-keyshortcuts": "t", "aria-label": `I have read this one: ${plain(item.tool)}` });
  box.checked = ticks.has(item.id);
  box.addEventListener("change", () => tick(item, box.checked));
  const made = make("article", { class: `card pending risk-${item.risk}${item.idle ? " idle" : ""}`, tabindex: "-1", "data-id": item.id, "aria-labelledby": `title-${item.id}` },
    ...body(item, view),
    item.progress ? make("p", { class: "progress" }, item.progress) : null);
  made.append(...problem(view), make("div", { class: "tick-row" }, box, make("label", { for: id }, "I have read this one")), about(item, view));
  return made;
}

function draw() {
  const at = document.activeElement;
  const focused = at?.closest?.(".card")?.dataset.id, onTick = at?.matches?.("input");
  // A request that no longer exists stays visible with its problem.
  list.replaceChildren(...[...items.values()].map(article), ...[...problems].filter(([id]) => !items.has(id)).map(gone));
  if (!list.childElementCount) {
    list.replaceChildren(make("div", { class: "empty" }, make("p", { class: "title" }, `No requests of ${agent} to review together`), make("p", {}, apart.hidden ? "It has no pending requests." : "Decide its pending requests one at a time in the inbox.")));
  }
  const again = focused && list.querySelector(`[data-id="${CSS.escape(focused)}"]`);
  (onTick ? again?.querySelector("input") : again)?.focus({ preventScroll: true });
  settle(list);
  [...list.querySelectorAll(".pending .place")].forEach((place, number, all) => { place.textContent = `${number + 1} of ${all.length}`; });
  const count = waiting().length;
  byId("title").textContent = count ? `${agent}: ${count} together` : agent;
  byId("lead").hidden = !count;
  drawBar();
}

function gone([id, why]) {
  return make("article", { class: "card", tabindex: "-1", "data-id": id },
    make("p", { class: "problem", role: "alert" }, `${id.slice(0, 8)} was not decided: ${why}.`));
}

function drawBar() {
  const { dataset: { key: at } = {}, selectionStart } = document.activeElement ?? {}, count = ticks.size;
  const view = { online: online && count > 0, busy };
  const field = make("textarea", { rows: "2", id: "words", "data-key": "words", placeholder: "Message to the agent", "aria-label": "Message to the agent" });
  field.value = draft.words;
  field.addEventListener("input", () => { draft.words = field.value; });
  const word = (on) => { draft.wording = on; drawBar(); (byId("words") ?? bar.querySelector("[data-key=reason]")).focus(); };
  const deny = button(view, `Deny ${count}`, { key: "deny", class: "deny", run: () => decide("deny") });
  bar.hidden = !waiting().length;
  bar.replaceChildren(...[
    make("p", { class: "quiet" }, `${count} of ${waiting().length} ticked`),
    draft.wording ? field : null,
    make("div", { class: "main" }, ...(draft.wording
      ? [deny, button(view, anotherPlan, { key: "feedback", class: "strong", run: () => decide("deny", true) }),
        button(view, "Back", { key: "back", class: "strong", decides: false, run: () => word(false) })]
      : [button(view, `Approve ${count}`, { key: "approve", class: "approve", run: () => decide("approve") }), deny,
        button(view, "Deny with a reason", { key: "reason", class: "strong", run: () => word(true) })])),
  ].filter(Boolean));
  const again = at && bar.querySelector(`[data-key="${at}"]:not(:disabled)`);
  again?.focus();
  if (again?.matches("textarea")) again.setSelectionRange(selectionStart, selectionStart);
}

// ------------------------------------------------------------------ data from the gateway

async function load() {
  const answer = await api(`batch?agent=${encodeURIComponent(agent)}`);
  if (!answer.ok) throw new Error(answer.value.detail);
  if (answer.at) setClock(answer.at + 500);
  const known = new Map(items), now = new Map(answer.value.items.map((item) => [item.id, item]));
  await Promise.all([...known.values()].filter((item) => waits(item) && !now.has(item.id)).map(({ id }) => reread(id)));
  const ended = [...items.values()].filter((item) => !waits(item) && !now.has(item.id));
  items.clear();
  for (const item of [...now.values(), ...ended].sort((one, other) => one.deadline - other.deadline || (one.id < other.id ? -1 : 1))) {
    items.set(item.id, item);
    if (ticks.has(item.id) && ticks.get(item.id) !== item.digest) {
      ticks.delete(item.id);
      problems.set(item.id, "the request was changed after you ticked it");
    }
  }
  for (const id of ticks.keys()) if (!now.has(id)) ticks.delete(id);
  apart.hidden = !answer.value.apart.length && !answer.value.more;
  apart.replaceChildren(...answer.value.apart.map(({ tool, why }) => make("li", {}, make("strong", {}, ...line(tool)), ` cannot be decided in a batch: ${why}.`)),
    ...(answer.value.more ? [make("li", {}, "There are more requests. They appear once these are decided.")] : []));
  if (JSON.stringify([...known]) !== JSON.stringify([...items]) || !list.querySelector(".card")) draw();
}

// Read one again; return whether it has ended.
async function reread(id, how = "") {
  const answer = await api(`requests/${id}${how}`).catch(() => null);
  if (!answer?.ok || waits(answer.value) || !items.has(id)) return false;
  end(answer.value);
  return true;
}

// Remove the tick of a request that ended elsewhere.
function end(item) {
  items.set(item.id, item);
  ticks.delete(item.id);
}

const changed = gather(async (all) => {
  const ended = await Promise.all(all.filter(([id]) => items.has(id)).map(([id]) => reread(id)));
  if (ended.some(Boolean)) draw();
  if (all.some(([id, type]) => items.has(id) || type === "submitted")) await load();
  await recount();
});

function connection(up, why) {
  online = up;
  connect(up, why);
  drawBar();
}

setInterval(() => tickAll(list), 1000);
listen(list, { enabled: () => chosen("keys", "on"), close: () => {} });
follow({
  ready: async () => {
    const me = await signIn();
    anotherPlan = me.another_plan;
    byId("who").textContent = me.name;
    await load();
    await recount();
  },
  changed,
  state: connection,
});
