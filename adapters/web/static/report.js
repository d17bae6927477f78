// The report for admins: how people decide, and how agents' requests end, from the audit.
import { api } from "./api.js";
import { make, told } from "./dom.js";
import { follow, gather, recount } from "./live_updates.js";

const list = document.getElementById("list"), period = document.getElementById("period");

const seconds = (ms) => (ms == null ? "–" : ms < 120000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60000)} min`);
const percent = (share) => (share == null ? "–" : `${Math.round(share * 100)} %`);

function card(name, facts, notices) {
  return make("article", { class: "card", "aria-label": name },
    make("h2", {}, name),
    told(facts.map(([label, value]) => [label, String(value)])),
    ...notices.map((text) => make("p", { class: "notice" }, text)));
}

function person(one) {
  const notices = [];
  if (one.never_denies) notices.push(`None of the ${one.decisions} decisions was a denial.`);
  if (one.hasty >= 0.5) notices.push(`${percent(one.hasty)} of the decisions took less than two seconds, too short to read a request.`);
  return card(one.name, [
    ["Decisions", one.decisions], ["Denials", one.denials],
    ["Half decided within", seconds(one.median_ms)], ["A tenth decided within", seconds(one.p10_ms)], ["Under 2 s", percent(one.hasty)],
    ["Grants made", one.grants_made],
  ], notices);
}

function agent(one) {
  return card(one.name, [
    ["Requests", one.requests], ["Ended", one.ended], ["Without a person", percent(one.auto)],
    ["Denied", percent(one.denied)], ["Expired", percent(one.expired)],
  ], []);
}

const answer = await api("report").catch(() => null);
if (!answer?.ok) {
  period.textContent = answer ? `You cannot see this report: ${answer.value.detail}.` : "The gateway did not answer. Load the page again.";
} else {
  const { approvers, agents, hooks = [] } = answer.value;
  period.textContent = "The last 30 days. Times start when a request is shown.";
  list.replaceChildren(
    make("h2", {}, "People"), ...(approvers.length ? approvers.map(person) : [make("p", { class: "quiet" }, "No decisions yet.")]),
    make("h2", {}, "Agents"), ...(agents.length ? agents.map(agent) : [make("p", { class: "quiet" }, "No requests yet.")]),
    ...(hooks.length ? [make("h2", {}, "Policy hooks"), ...hooks.map((one) => card(one.name, [["Requests changed", one.changed]], []))] : []));
}

// New requests are counted here too, and ring.
follow({ ready: recount, changed: gather(recount), state: () => {} });
