// Notices that concern no request: the kill switch, problems of the gateway, and changes of grants.
import { api } from "./api.js";
import { line, make, plain } from "./dom.js";
import { tellStopped } from "./queue.js";
import { sure } from "./confirm.js";

const stop = document.getElementById("stop"), wrong = document.getElementById("wrong"), switching = document.getElementById("switch"), told = document.getElementById("told");
const TOLD = ["grant_made", "grant_ending", "grant_ended", "grant_suspended"];
const LOOK_MS = 30_000;
let admin = false, watches = false;

// Problems of the gateway send no event, so look regularly.
const again = () => watches && look().catch(() => null);
setInterval(again, LOOK_MS);
document.addEventListener("visibilitychange", again);

export function standing(me) {
  admin = me.admin;
  watches = me.admin || me.auditor;
  document.getElementById("operations").hidden = !watches;
  draw(me.switch);
  warn(me.troubles);
}

// Show admins and auditors the current problems of the gateway.
function warn(troubles) {
  wrong.hidden = !troubles.length;
  const said = troubles.map((one) => make("p", {}, one));
  if (wrong.textContent !== troubles.join("")) wrong.replaceChildren(...said);
}

// Everybody sees that the kill switch is on; only admins get its button.
function draw({ on, state, does }) {
  stop.hidden = !on;
  tellStopped(on);
  stop.replaceChildren(make("strong", {}, state), ...(on && admin ? press(false, does) : []));
  if (on) switching.closest("details").open = false; // it would cover the notice
  switching.replaceChildren(...(!on && admin ? press(true, does) : []));
}

// The button, below the effect of a press.
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

// Show a notice for one event; `open` shows the list of grants.
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
