// One waiting request as a line of the queue, and who reviews several at once.
import { countdown, line, make } from "./dom.js";

export const pathOf = (id) => `/inbox/r/${id}`;

// The line is a link to the request's own page: it opens in a tab of its own, too.
export function rowOf(item, shown) {
  const head = item.head.map(([text, name]) => make(name ? "code" : "span", {}, ...line(text)));
  const link = make("a", { class: "row-link", href: pathOf(item.id), "data-row": item.id, "aria-current": shown ? "true" : null },
    make("span", { class: "row-head" }, ...head), countdown(item, "row-left"),
    make("span", { class: "row-who" }, ...marks(item), make("span", {}, item.agent), ...notes(item)),
    make("span", { class: "row-soon" }, "ends soon"));
  return make("li", { class: `queue-row risk-${item.risk}` }, link);
}

// Colour means that something was found, and a word says so.
function marks({ risk, found }) {
  if (risk === "high") return [make("strong", { class: "mark high" }, "High risk")];
  return found ? [make("strong", { class: "mark" }, "Look closer")] : [];
}

function notes(item) {
  const told = [];
  if (item.quorum > 1) told.push(`${item.votes.length} of ${item.quorum} approved`);
  if (item.claim) told.push(`${item.claim.by} is looking`);
  return told.map((text) => make("span", {}, text));
}

// A link for each agent of which several requests may be decided together.
export function together(items) {
  const counts = new Map();
  for (const { agent, mine, alone } of items) if (mine && !alone) counts.set(agent, (counts.get(agent) ?? 0) + 1);
  return [...counts].filter(([, count]) => count > 1).map(([agent, count]) =>
    make("a", { class: "together", href: `/inbox/batch?agent=${encodeURIComponent(agent)}` }, `Review ${count} of ${agent} together`));
}
