// Who looks and who only taps, and how agents' requests end: figures from the audit, for admins.
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
  if (one.never_denies) notices.push(`Not one of ${one.decisions} answers was a denial.`);
  if (one.hasty >= 0.5) notices.push(`${percent(one.hasty)} of the answers came within two seconds: too soon to have read.`);
  return card(one.name, [
    ["Answers", one.decisions], ["Denials", one.denials],
    ["Half within", seconds(one.median_ms)], ["A tenth within", seconds(one.p10_ms)], ["Under 2 s", percent(one.hasty)],
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
  period.textContent = answer ? `This is not for you: ${answer.value.detail}.` : "The gateway did not answer. Load the page again.";
} else {
  const { approvers, agents, hooks = [] } = answer.value;
  period.textContent = "The last 30 days. Times count from when a request was shown.";
  list.replaceChildren(
    make("h2", {}, "People"), ...(approvers.length ? approvers.map(person) : [make("p", { class: "quiet" }, "Nobody has answered anything.")]),
    make("h2", {}, "Agents"), ...(agents.length ? agents.map(agent) : [make("p", { class: "quiet" }, "No agent has asked anything.")]),
    ...(hooks.length ? [make("h2", {}, "Policy hooks"), ...hooks.map((one) => card(one.name, [["Requests changed", one.changed]], []))] : []));
}

// What waits meanwhile is counted here, too, and calls.
follow({ ready: recount, changed: gather(recount), state: () => {} });
