// What happens beside requests: the kill switch, what is wrong with the gateway, and what is remembered, ends soon or was dropped.
import { api } from "./api.js";
import { line, make, plain } from "./dom.js";
import { tellStopped } from "./queue.js";
import { sure } from "./confirm.js";

const stop = document.getElementById("stop"), wrong = document.getElementById("wrong"), switching = document.getElementById("switch"), told = document.getElementById("told");
const TOLD = ["grant_made", "grant_ending", "grant_ended", "grant_suspended"];
const LOOK_MS = 30_000;
let admin = false;

// What is wrong comes with no event.
const again = () => admin && look().catch(() => null);
setInterval(again, LOOK_MS);
document.addEventListener("visibilitychange", again);

export function standing(me) {
  admin = me.admin;
  draw(me.switch);
  warn(me.troubles);
}

// Admins are told what is wrong with the gateway as long as it is.
function warn(troubles) {
  wrong.hidden = !troubles.length;
  const said = troubles.map((one) => make("p", {}, one));
  if (wrong.textContent !== troubles.join("")) wrong.replaceChildren(...said);
}

// Everybody sees that everything is denied; admins alone get the switch.
function draw({ on, state, does }) {
  stop.hidden = !on;
  tellStopped(on);
  stop.replaceChildren(make("strong", {}, state), ...(on && admin ? press(false, does) : []));
  if (on) switching.closest("details").open = false; // it would lie above what is said now
  switching.replaceChildren(...(!on && admin ? press(true, does) : []));
}

// What a press does stands above it: how many wait is counted when the page asks.
function press(on, does) {
  const act = sure(`stop ${on}`, on ? "Stop everything" : "Let agents ask again", "", () => api("stop", { on }), look);
  return [make("p", { class: "quiet" }, does), act];
}

async function look() {
  const answer = await api("me");
  if (!answer.ok) return;
  draw(answer.value.switch);
  warn(answer.value.troubles);
}

// Tell about one event of the gateway's; `open` shows what is remembered.
export async function news({ type, grant }, say, open) {
  if (type === "stopped" || type === "resumed") { await look().catch(() => null); return; }
  if (!TOLD.includes(type) || !grant) return;
  const answer = await api(`grants/${grant}`).catch(() => null);
  if (!answer?.ok) return;
  const { word, words, outcome } = answer.value;
  const head = type === "grant_ending" ? `${word}, and ends soon` : word;
  const why = outcome ? ` (${outcome})` : "";
  say(`${head}: ${plain(words)}${why}`);
  told.replaceChildren(make("p", {}, make("strong", {}, `${head}: `), ...line(words), why),
    make("div", { class: "acts" },
      make("button", { type: "button", class: "plain", onclick: () => { told.replaceChildren(); open(); } }, "Show"),
      make("button", { type: "button", class: "plain", onclick: () => told.replaceChildren() }, "Dismiss")));
}
