// The queue: what waits, the soonest deadline first, on the side that was chosen.
import { api } from "./api.js";
import { line, make, settle } from "./dom.js";
import { countdown, setClock, tickAll } from "./time_left.js";
import { show } from "./live_updates.js";

const element = document.getElementById("rows"), older = document.getElementById("older");
const sides = [...document.querySelectorAll("[data-side]")], group = document.getElementById("together");
const rows = new Map();
const SCREEN = 12; // lines that a phone shows
let side = "mine", next = null, loads = 0, shown = null, known = false, stopped = false;

// Whoever scrolls to the end wants to see more.
let further = () => null;
const ends = new IntersectionObserver(([seen]) => seen.isIntersecting && further(), { rootMargin: "200px" });

const NOTHING = {
  mine: ["Nothing waits for you", "When an agent asks, its request appears here."],
  others: ["Nothing waits for others", "What you have approved, or may not decide, stands here."],
  all: ["Nothing waits", "When an agent asks, its request appears here."],
};

const STOPPED = "Everything that agents ask is denied at once, so nothing comes here.";

export const has = (id) => rows.has(id);
export const first = () => ordered()[0]?.id ?? null;

export function neighbour(id, step) {
  const all = ordered(), at = all.findIndex((row) => row.id === id);
  if (at < 0) return all[step > 0 ? 0 : all.length - 1]?.id ?? null;
  return all[Math.min(all.length - 1, Math.max(0, at + step))].id;
}

export function linkOf(id) {
  return element.querySelector(`[data-row="${id}"]`);
}

// Say which request is open, so that its line shows it.
export function mark(id) {
  linkOf(shown)?.removeAttribute("aria-current");
  shown = id;
  linkOf(id)?.setAttribute("aria-current", "true");
  place();
}

export async function load(after = null) {
  const mine = ++loads;
  const from = after ? `&after=${after}` : "";
  const answer = await api(`queue?side=${side}${from}`);
  if (mine !== loads) return;
  if (!answer.ok) throw new Error(answer.value.detail);
  if (answer.at) setClock(answer.at + 500);
  if (!after) rows.clear();
  for (const row of answer.value.items) rows.set(row.id, row);
  next = answer.value.next;
  if (!known) {
    known = true;
    draw(SCREEN);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }
  draw();
  // Whether the end is in sight is asked anew: it may have stayed there.
  ends.unobserve(older);
  ends.observe(older);
}

export function count(counts) {
  show(counts);
  const { mine, others, more } = counts;
  for (const one of sides) {
    const number = { mine, others, all: mine + others }[one.dataset.side];
    one.lastElementChild.textContent = `${number}${more ? "+" : ""}`;
  }
}

// Read one that changed; return it, null when it stands in no line of its own.
export async function read(id) {
  const answer = await api(`queue/${id}`);
  if (!answer.ok) return null;
  const { follows } = answer.value; // it has no line: the one that asks the same counts it
  if (follows && !rows.has(id)) return rows.has(follows) ? read(follows) : null;
  put(answer.value);
  return answer.value;
}

export function put(row) {
  const before = rows.get(row.id);
  const fits = row.status === "pending" && !row.follows && (side === "all" || row.mine === (side === "mine"));
  // What ends later than all that is listed stands on a page that was not read yet.
  if (fits && !before && next && compare(row, last()) > 0) return;
  if (fits) rows.set(row.id, row);
  else if (!rows.delete(row.id)) return;
  if (JSON.stringify(before) !== JSON.stringify(row) || !fits) draw();
}

// The first sight is drawn as far as a screen shows it, and then all of it.
function draw(most = rows.size) {
  const focused = document.activeElement?.dataset?.row;
  const made = ordered().slice(0, most).map((row) => rowOf(row, row.id === shown));
  if (!made.length && known) made.push(empty());
  element.replaceChildren(...made);
  if (focused) linkOf(focused)?.focus({ preventScroll: true });
  tickAll(element);
  settle(element);
  older.hidden = !next;
  group.replaceChildren(...together([...rows.values()]));
  place();
}

function empty() {
  const [title, text] = NOTHING[side];
  return make("li", { class: "empty" }, make("p", { class: "title" }, title), make("p", {}, stopped ? STOPPED : text));
}

// While everything is stopped no request can come.
export function tellStopped(on) {
  stopped = on;
  if (known && !rows.size) draw();
}

// Where the open request stands in the line, and which one is next after it.
export function place() {
  const card = document.querySelector(`[data-id="${shown}"]`), told = card?.querySelector(".place"), at = ordered().findIndex((row) => row.id === shown);
  const link = card?.querySelector(".next"), after = ordered().find((row) => row.id !== shown)?.id;
  if (link) { link.hidden = !after; link.href = pathOf(after); }
  if (told) told.textContent = at >= 0 && rows.size > 1 ? `${at + 1} of ${rows.size}${next ? "+" : ""}` : "";
}

function ordered() {
  return [...rows.values()].sort(compare);
}

const last = () => ordered().at(-1);

function compare(one, other) {
  return one.deadline - other.deadline || (one.id < other.id ? -1 : 1);
}

// `failed` is called when a page cannot be read.
export function listenToSides(failed) {
  for (const press of sides) {
    press.addEventListener("click", () => {
      side = press.dataset.side;
      for (const one of sides) one.setAttribute("aria-pressed", String(one === press));
      load().catch(failed);
    });
  }
  further = () => next && load(next).catch(failed);
  older.addEventListener("click", () => further());
}

// ------------------------------------------------------------------ one line

const pathOf = (id) => `/inbox/r/${id}`;

// The line is a link to the request's own page: it opens in a tab of its own, too.
function rowOf(item, shown) {
  const summary = item.summary.map(([text, name]) => make(name ? "code" : "span", {}, ...line(text)));
  const link = make("a", { class: "row-link", href: pathOf(item.id), "data-row": item.id, "aria-current": shown ? "true" : null },
    make("span", { class: "row-head" }, ...summary), countdown(item, "row-left"),
    make("span", { class: "row-who" }, ...marks(item), make("span", {}, item.agent)), make("span", { class: "row-notes" }, ...notes(item)),
    make("span", { class: "row-soon" }, "ends soon"));
  return make("li", { class: `queue-row risk-${item.risk}` }, link);
}

// Colour means that something was found, and a word says so.
function marks({ risk, found, idle }) {
  const mark = (word, kind = "mark") => make("strong", { class: kind }, word);
  return [idle ? mark(idle) : null, risk === "high" ? mark("High risk", "mark high") : found ? mark("Look closer") : null].filter(Boolean);
}

function notes(item) {
  const told = [];
  if (item.approved) told.push(item.approved);
  if (item.claim) told.push(`${item.claim.by} is looking`);
  return told.map((text) => make("span", {}, text));
}

// A link for each agent of which several requests may be decided together.
function together(items) {
  const counts = new Map();
  for (const { agent, mine, alone } of items) if (mine && !alone) counts.set(agent, (counts.get(agent) ?? 0) + 1);
  return [...counts].filter(([, count]) => count > 1).map(([agent, count]) =>
    make("a", { class: "together", href: `/inbox/batch?agent=${encodeURIComponent(agent)}` }, `Review ${count} of ${agent} together`));
}
