// The queue: pending requests of the chosen side, the soonest deadline first.
import { api } from "./api.js";
import { line, make, settle } from "./dom.js";
import { countdown, setClock, tickAll } from "./time_left.js";
import { show } from "./live_updates.js";

const element = document.getElementById("rows"), older = document.getElementById("older");
const sides = [...document.querySelectorAll("[data-side]")], group = document.getElementById("together");
const rows = new Map();
const SCREEN = 12; // lines that a phone shows
let side = "mine", next = null, loads = 0, shown = null, known = false, stopped = false;

// Scrolling to the end loads more.
let further = () => null;
const ends = new IntersectionObserver(([seen]) => seen.isIntersecting && further(), { rootMargin: "200px" });

const NOTHING = {
  mine: ["You have no pending requests", "When an agent asks for approval, its request appears here."],
  others: ["Others have no pending requests", "Requests that you approved, or may not decide, appear here."],
  all: ["No requests are pending", "When an agent asks for approval, its request appears here."],
};

const STOPPED = "The kill switch is on: every request is denied at once.";

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

// Mark the line of the open request.
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
  // Observe the end again: it may have stayed visible.
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

// Read a changed request; return it, or null if it has no line.
export async function read(id) {
  const answer = await api(`queue/${id}`);
  if (!answer.ok) return null;
  const { follows } = answer.value; // a duplicate has no line: the first request counts it
  if (follows && !rows.has(id)) return rows.has(follows) ? read(follows) : null;
  put(answer.value);
  return answer.value;
}

export function put(row) {
  const before = rows.get(row.id);
  const fits = row.status === "pending" && !row.follows && (side === "all" || row.mine === (side === "mine"));
  // A later deadline than all listed ones belongs to a page that is not loaded yet.
  if (fits && !before && next && compare(row, last()) > 0) return;
  if (fits) rows.set(row.id, row);
  else if (!rows.delete(row.id)) return;
  if (JSON.stringify(before) !== JSON.stringify(row) || !fits) draw();
}

// The first drawing has only as many lines as a screen shows.
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

// While the kill switch is on, the empty list says so.
export function tellStopped(on) {
  stopped = on;
  if (known && !rows.size) draw();
}

// Show the position of the open request, and link to the next one.
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

// `failed` is called if a page cannot be read.
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

// The line is a link to the request's page, so that it can open in a new tab.
function rowOf(item, shown) {
  const summary = item.summary.map(([text, name]) => make(name ? "code" : "span", {}, ...line(text)));
  const link = make("a", { class: "row-link", href: pathOf(item.id), "data-row": item.id, "aria-current": shown ? "true" : null },
    make("span", { class: "row-head" }, ...summary), countdown(item, "row-left"),
    make("span", { class: "row-who" }, ...marks(item), make("span", {}, item.agent)), make("span", { class: "row-notes" }, ...notes(item)),
    make("span", { class: "row-soon" }, "ends soon"));
  return make("li", { class: `queue-row risk-${item.risk}` }, link);
}

// Colour marks findings, and a word says so.
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

// A link for each agent with several requests that can be decided together.
function together(items) {
  const counts = new Map();
  for (const { agent, mine, alone } of items) if (mine && !alone) counts.set(agent, (counts.get(agent) ?? 0) + 1);
  return [...counts].filter(([, count]) => count > 1).map(([agent, count]) =>
    make("a", { class: "together", href: `/inbox/batch?agent=${encodeURIComponent(agent)}` }, `Review ${count} from ${agent} together`));
}
