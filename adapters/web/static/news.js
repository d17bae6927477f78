// What happens beside requests: the kill switch, and what is remembered, ends soon or was dropped.
import { api } from "./api.js";
import { line, make, plain } from "./dom.js";
import { sure } from "./sure.js";

const stop = document.getElementById("stop"), switching = document.getElementById("switch"), told = document.getElementById("told");
const SAID = {
  grant_made: ["Newly remembered", (card) => card.words],
  grant_ending: ["Ends soon", (card) => card.words],
  grant_ended: ["No longer remembered", (card) => card.words],
  grant_suspended: ["Suspended", (card) => card.words],
};
let admin = false;

export function standing(me) {
  admin = me.admin;
  draw(me.stopped);
}

// Everybody sees that everything is denied; admins alone get the switch.
function draw(on) {
  const words = on ? "Everything is denied: the kill switch is on." : "";
  stop.hidden = !on;
  stop.replaceChildren(make("strong", {}, words), ...(on && admin ? [press(false)] : []));
  if (on) switching.closest("details").open = false; // it would lie above what is said now
  switching.replaceChildren(...(!on && admin ? [press(true)] : []));
}

function press(on) {
  return sure(`stop ${on}`, on ? "Stop everything" : "Allow again", "", () => api("stop", { on }), () => draw(on));
}

// Tell about one event of the gateway's; `open` shows what is remembered.
export async function news({ type, grant }, say, open) {
  if (type === "stopped" || type === "resumed") { draw(type === "stopped"); return; }
  const [head, words] = SAID[type] ?? [];
  if (!head || !grant) return;
  const answer = await api(`grants/${grant}`).catch(() => null);
  if (!answer?.ok) return;
  const why = answer.value.outcome ? ` (${answer.value.outcome})` : "";
  say(`${head}: ${plain(words(answer.value))}${why}`);
  told.replaceChildren(make("p", {}, make("strong", {}, `${head}: `), ...line(words(answer.value)), why),
    make("div", { class: "acts" },
      make("button", { type: "button", class: "plain", onclick: () => { told.replaceChildren(); open(); } }, "Show"),
      make("button", { type: "button", class: "plain", onclick: () => told.replaceChildren() }, "Dismiss")));
}
