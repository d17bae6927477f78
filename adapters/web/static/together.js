// What can be reviewed side by side: several waiting requests of one agent.
import { make } from "./dom.js";

// High risk is decided alone, and so is what asks for an answer of its own.
export function fitting(item) {
  return item.status === "pending" && item.risk !== "high" && !item.refusal && !item.fields.length;
}

// Return a link for each agent of which several requests wait.
export function together(items) {
  const counts = new Map();
  for (const { agent } of items.filter(fitting)) counts.set(agent, (counts.get(agent) ?? 0) + 1);
  return [...counts].filter(([, count]) => count > 1).map(([agent, count]) =>
    make("a", { class: "together", href: `/inbox/batch?agent=${encodeURIComponent(agent)}` }, `Review ${count} of ${agent} together`));
}
