// The page Notifications: this device, all of the person's devices, quiet hours, and absence.
import { api, signIn } from "./api.js";
import { make } from "./dom.js";
import { clock } from "./time_left.js";
import { sure } from "./confirm.js";
import { current, lacking, turnOff, turnOn } from "./subscription.js";

const byId = (id) => document.getElementById(id);
const here = byId("here"), turn = byId("turn"), devices = byId("devices"), form = byId("quiet"), says = byId("quiet-says");

async function show(problem = "") {
  const { ok, value } = await api("push");
  if (!ok) { here.textContent = value.detail; return; }
  const subscribed = await current();
  drawHere(value, subscribed, problem);
  devices.replaceChildren(...(value.devices.length ? value.devices.map(row) : [make("p", { class: "quiet" }, "No device gets notifications yet.")]));
}

function drawHere({ missing, key, devices: known }, subscribed, problem) {
  const mine = subscribed && known.find((one) => one.here);
  const lacks = missing ? `Ask the operator of the gateway: ${missing}.` : lacking();
  here.textContent = lacks || (mine ? "This device gets a notification for each request that you can decide." : "This device gets no notifications.");
  const press = (kind, label, act) => make("button", { type: "button", class: kind, onclick: act }, label);
  const on = press("approve", "Notify me here", async (event) => {
    event.target.disabled = true;
    await show(await turnOn(key, csrf).catch((error) => `Notifications stay off: ${error.message}`));
  });
  const off = press("plain", "Stop on this device", async () => { await turnOff(mine.id); await show(); });
  turn.replaceChildren(...(lacks ? [] : [mine ? off : on]), ...(problem ? [make("p", { class: "problem", role: "alert" }, problem)] : []));
}

function row(one) {
  const told = make("p", { class: "quiet", role: "status" });
  const test = make("button", { type: "button", class: "plain", onclick: async () => {
    told.textContent = "Sending…";
    const answer = await api(`push/devices/${one.id}/test`, {}).catch(() => null);
    told.textContent = answer?.ok ? "Sent. The test should appear in a moment." : answer?.value.detail ?? "The gateway did not answer.";
  } }, "Send a test notification", make("span", { class: "unseen" }, ` to ${one.label}`));
  const discreet = make("input", { type: "checkbox", id: `discreet-${one.id}`, checked: one.discreet, onchange: (event) =>
    api(`push/devices/${one.id}/discreet`, { on: event.target.checked }).catch(() => { event.target.checked = one.discreet; }) });
  return make("div", { class: "device" },
    make("p", { class: "name" }, one.label, one.here ? " (this one)" : ""),
    make("p", { class: "quiet" }, `Since ${clock(one.added)}`),
    one.failure ? make("p", { class: "notice" }, `Last try failed, ${clock(one.failed_at)}: ${one.failure}.`) : null,
    make("p", { class: "field tick" }, make("label", { for: discreet.id }, "Hide what would run"), discreet),
    make("div", { class: "acts" }, test, sure(`remove ${one.id}`, "Remove", ` ${one.label}`, () => api(`push/devices/${one.id}/remove`, {}), () => removed(one))),
    told);
}

async function removed({ here: mine }) {
  if (mine) await (await current())?.unsubscribe();
  await show();
}

function drawQuiet(hours) {
  byId("begin").value = hours?.begin ?? "";
  byId("end").value = hours?.end ?? "";
  byId("zone").value = hours?.zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
  byId("high").checked = hours?.high ?? false;
  byId("no-quiet").hidden = !hours;
  says.className = "quiet";
  says.textContent = hours ? `Quiet from ${hours.begin} to ${hours.end}, ${hours.zone}.` : "You have no quiet hours.";
}

async function keep(hours) {
  const answer = await api("push/quiet", { hours });
  if (answer.ok) return drawQuiet(hours);
  says.className = "problem";
  says.textContent = answer.value.detail;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  keep({ begin: byId("begin").value, end: byId("end").value, zone: byId("zone").value, high: byId("high").checked });
});
byId("no-quiet").addEventListener("click", () => keep(null));

const absence = byId("away"), told = byId("away-says");
async function showAway() {
  const { ok, value } = await api("away");
  if (absence.hidden = !ok) return;
  told.textContent = value.away ?? (value.names.length ? "You are not away." : "Nobody else may approve what you may.");
  byId("come-back").hidden = !value.away;
  byId("delegate").replaceChildren(...value.names.map((name) => make("option", { value: name }, name)));
}

async function changeAway(path, body) {
  const { ok, value } = await api(`away/${path}`, body);
  if (ok) await showAway();
  told.className = ok ? "quiet" : "problem";
  told.textContent = ok ? value.says : value.detail;
}
absence.addEventListener("submit", (event) => {
  event.preventDefault();
  changeAway("leave", { delegate: byId("delegate").value, until: Date.parse(byId("until").value), zone: Intl.DateTimeFormat().resolvedOptions().timeZone });
});
byId("come-back").addEventListener("click", () => changeAway("back", {}));
const { csrf } = await signIn();
await showAway();
drawQuiet((await api("push")).value.quiet);
await show();
