// The page Operations, for admins and auditors: the problems of all gateways, what to do about each, and the figures.
import { api, signIn } from "./api.js";
import { line, make, told } from "./dom.js";
import { clock, setClock } from "./time_left.js";
import { sure } from "./confirm.js";

const LOOK_MS = 10_000, PATIENCE_MS = 5_000;
const byId = (id) => document.getElementById(id);
const figures = byId("figures"), says = byId("says");
const STATES = { working: "Works", failing: "Has a problem", elsewhere: "Does not run in this process" };
const SUMS = { ready: "No gateway problem.", degraded: "Degraded: decisions work, something else does not.", "not ready": "Not ready: nobody can decide, or nothing can be recorded." };
const AWAY = "Check that Redis runs and that the gateway can reach it. Run `gateway doctor` on the gateway's host.";
const SILENT = "Check that the gateway runs: `gateway status` on its host. Check the network and the proxy too.";

function span(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

function size(bytes) {
  const power = Math.min(3, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  return `${(bytes / 1024 ** power).toFixed(power ? 1 : 0)} ${["B", "KB", "MB", "GB"][power]}`;
}

// Redraw a part only if its data changed, so that the keyboard's focus stays where it is.
const drawn = new Map();
function draw(id, data, build) {
  const text = JSON.stringify(data);
  if (drawn.get(id) === text) return;
  drawn.set(id, text);
  byId(id).replaceChildren(...build(data));
}

const row = (title, ...rest) => make("li", {}, make("strong", {}, title), ...rest);

// Text between backticks is a command.
const commands = (text) => text.split("`").map((part, at) => (at % 2 ? make("code", {}, part) : part));

function problem({ name, result, says: said, remedy }) {
  return make("li", { class: result },
    make("p", {}, make("span", { class: "kind" }, `${result === "fail" ? "Problem" : "Warning"}, ${name}: `), ...(typeof said === "string" ? commands(said) : line(said))),
    make("p", { class: "quiet" }, "What to do: ", ...commands(remedy)));
}

function list(problems) {
  draw("problems", problems, (all) => all.map(problem));
  byId("trouble").hidden = !problems.length;
}

function say(text, kind) {
  if (says.textContent !== text) says.textContent = text; // a screen reader reads each change
  says.className = kind;
}

function show(found) {
  const { checks, store, pending, oldest, webhook_host: host, webhook_seconds: late } = found;
  setClock(found.at);
  byId("at").textContent = new Date(found.at).toLocaleTimeString();
  const wrong = checks.filter((one) => one.result !== "ok");
  list(wrong);
  const count = wrong.length === 1 ? "One problem." : `${wrong.length} problems.`;
  const worst = found.status === "not ready" || wrong.some((one) => one.result === "fail") ? "problem" : "notice";
  say(found.status === "ready" && wrong.length ? count : SUMS[found.status], wrong.length ? worst : "quiet lead");
  const act = me?.admin ? sure : () => ""; // who may only read has no buttons
  draw("kill", [found.switch, me], ([{ on, state, does }]) => [
    make("p", {}, on ? make("strong", {}, state) : "Off."), make("p", { class: "quiet" }, does),
    act(`stop ${on}`, on ? "Let agents ask again" : "Stop everything", "", () => api("stop", { on: !on }), look)]);
  byId("cooling").hidden = !found.paused.length;
  draw("paused", [found.paused, me], ([all]) => all.map(({ agent, until }) => row(agent, make("p", { class: "quiet" }, `After too many denials in a row, until ${clock(until)}.`),
    act(`lift ${agent}`, "Let it ask", ` for ${agent}`, () => api("agents/lift", { agent }), look))));
  draw("gateways", found.gateways, (all) => all.map((one) => row(one.name, told([
    ["Version", one.version || "unknown"], ["Last seen", `${span(one.renewed)} ago`], ...(one.leader ? [["Role", "leader"]] : [])]))));
  draw("adapters", found.adapters, (all) => all.map(({ name, state, outbox }) => row(name, told([
    ["State", STATES[state]],
    ...(outbox ? [["Cards due", String(outbox.waiting)], ["Longest due", span(outbox.overdue)], ["Outdated cards with buttons", String(outbox.stale)]] : [])]))));
  draw("queues", [store, pending, oldest, host, late], () => [
    row("Messages of agents", told([["Unread", String(store.intake_messages)], ["Oldest", span(store.intake)]])),
    row("Requests", told([["Pending", String(pending)], ["Oldest", span(oldest)]])),
    ...(host ? [row(`Webhooks to ${host}`, told([["Next has waited", span(late)]]))] : [])]);
  draw("capacity", [store, found.agents], () => [
    row("Redis memory", told([["Used", size(store.memory)], ["Limit", store.room ? size(store.room) : "none"]])),
    row("Audit log", told([["Longest without a seal", span(store.unsealed)], ["Longest without the archive", span(store.unarchived)], ["Archive", size(store.archive_bytes)]])),
    ...found.agents.map((one) => row(`Pending requests of ${one.agent}`, told([["Now", String(one.pending)], ["Limit", String(one.most)]])))]);
  draw("passed", checks.filter((one) => one.result === "ok"), (all) => told(all.map((one) => [one.name, one.says])).children);
  figures.hidden = false;
}

// Old figures must never look like current ones.
async function lose() {
  figures.hidden = true;
  const ready = await fetch("/readyz").then((answer) => answer.json()).catch(() => null);
  // Problems that stop everything come first. The others quote names that nothing has made harmless here.
  const said = !ready ? "the gateway does not answer" : ready.status === "not ready" ? ready.problems[0] : "the gateway cannot read its state";
  list([{ name: "gateway", result: "fail", says: said, remedy: ready ? AWAY : SILENT }]);
  say(`The state of the gateways is unknown since ${byId("at").textContent || "the start"}. This page tries again every 10 seconds.`, "problem");
}

let asking = 0, me = null; // since when a call has had no answer
async function look() {
  if (asking) return Date.now() - asking > PATIENCE_MS ? lose() : null;
  asking = Date.now();
  me ??= await signIn().then((one) => (one.csrf ? one : null)).catch(() => null); // writes need its token
  byId("who").textContent = me?.name ?? "";
  const answer = await api("operations").catch(() => null);
  asking = 0;
  if (answer?.ok) return show(answer.value);
  if (answer?.status !== 403) return lose();
  figures.hidden = true;
  list([]);
  say(`You cannot see this page: ${answer.value.detail}.`, "problem");
}

const visible = () => document.hidden || look();
document.addEventListener("visibilitychange", visible);
setInterval(visible, LOOK_MS);
look();
