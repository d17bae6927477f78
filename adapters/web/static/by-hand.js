// The form by which an admin has something remembered that no request asked for: an example call, then
// what may be remembered of it, in the gateway's words. It is drawn once, so that what was typed stays.
import { api, nonce } from "./api.js";
import { line, make, plain } from "./dom.js";

const KINDS = { tool: "a tool, with its arguments", command: "a shell command" };
const EFFECTS = { allow: "Allow it", deny: "Deny it" };

export function handForm(lifetimes, say) {
  const agent = input("agent"), tool = input("tool"), kind = select("kind", KINDS);
  const json = area("arguments", { rows: "4" }), command = area("command", { rows: "2" });
  const cwd = input("cwd"), host = input("host"), effect = select("effect", EFFECTS);
  const lifetime = select("lifetime", lifetimes), session = input("session");
  const shell = field("Command", command, "As the agent would send it. Nothing is run."), call = field("Arguments, as JSON", json, "As the agent would send them. Nothing is run.");
  const found = make("div", { class: "stack", id: "hand-found" });
  const state = { shown: 0, press: null, nonce: null };

  json.value = "{}";
  kind.addEventListener("change", () => { shell.hidden = kind.value !== "command"; call.hidden = !shell.hidden; });
  kind.dispatchEvent(new Event("change"));
  // What was offered is of the call as it stood: another letter, and it is asked anew.
  for (const one of [agent, tool, kind, json, command, cwd, host, effect]) {
    for (const event of ["input", "change"]) one.addEventListener(event, () => { state.shown += 1; found.replaceChildren(); });
  }
  const send = make("button", { type: "submit", class: "strong" }, "Show what can be remembered");

  const form = make("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); offers(); } },
    make("p", { class: "quiet" }, "Describe a call as the agent would send it. You then choose how much of it is remembered."),
    field("Agent", agent, "Its name, as on its requests."),
    field("What it calls", kind), field("Tool", tool, "Its name, as the agent calls it."), call, shell,
    make("div", { class: "two" }, field("Folder (optional)", cwd), field("Host (optional)", host)),
    make("div", { class: "two" }, field("Answer", effect), field("For how long", lifetime)),
    field("Session (optional)", session, "Its name. Left empty, it holds in all sessions of the agent."),
    make("div", { class: "acts" }, send), found);
  return make("details", { class: "hand" }, make("summary", {}, "Remember something by hand"), form);

  function read() {
    const body = { agent: agent.value.trim(), effect: effect.value, tool: tool.value.trim(), kind: kind.value };
    if (cwd.value) body.cwd = cwd.value;
    if (host.value) body.host = host.value;
    if (kind.value === "command") return { body, text: JSON.stringify({ command: command.value }) };
    try { JSON.parse(json.value); } catch (error) { return { problem: `The arguments are not JSON: ${error.message}` }; }
    return { body, text: json.value };
  }

  function fail(text) {
    found.querySelector(".problem")?.remove();
    found.prepend(make("p", { class: "problem", role: "alert" }, text));
  }

  async function offers() {
    const mine = ++state.shown, { body, text, problem } = read();
    found.replaceChildren();
    if (problem) { fail(problem); return; }
    send.disabled = true;
    const answer = await api("grants/offers", body, text).catch(() => null);
    send.disabled = false;
    if (mine !== state.shown) return; // the call was changed meanwhile
    if (!answer?.ok) { fail(answer?.value.detail ?? "The gateway did not answer. Try again."); return; }
    const rows = answer.value.offers.map((offer) => row(offer, body, text));
    const head = make("h2", { tabindex: "-1" }, body.effect === "allow" ? "What may go through without asking" : "What may be denied without asking");
    found.replaceChildren(head, make("ul", { class: "offers" }, ...rows));
    head.focus();
  }

  function row(offer, body, text) {
    const label = body.effect === "allow" ? "Allow this" : "Deny this";
    const press = make("button", { type: "button", class: body.effect === "allow" ? "approve" : "deny", onclick: () => choose(offer, body, text, press) },
      label, make("span", { class: "unseen" }, `: ${plain(offer.words)}`));
    return make("li", {}, make("p", {}, ...line(offer.words)), press);
  }

  async function choose(offer, body, text, press) {
    const wish = { ...body, offer: offer.id, lifetime: lifetime.value, session: session.value.trim() };
    // The same press sent again makes no second grant.
    const named = JSON.stringify([wish, text]);
    if (state.press !== named) Object.assign(state, { press: named, nonce: nonce() });
    press.disabled = true;
    const answer = await api("grants/by-hand", { ...wish, nonce: state.nonce }, text).catch(() => null);
    press.disabled = false;
    if (!answer?.ok) { fail(answer?.value.detail ?? "Not known whether it was remembered: the gateway did not answer. Press again; it is made once."); return; }
    state.press = null;
    const done = make("p", { class: "claimed", tabindex: "-1" }, body.effect === "allow" ? "From now on goes through: " : "From now on is denied: ", ...line(answer.value.words));
    found.replaceChildren(done);
    done.focus();
    say("Remembered.");
  }
}

function input(name) {
  return make("input", { type: "text", id: `hand-${name}`, autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
}

function area(name, options) {
  return make("textarea", { id: `hand-${name}`, class: "code", spellcheck: "false", ...options });
}

function select(name, choices) {
  return make("select", { id: `hand-${name}` }, ...Object.entries(choices).map(([value, words]) => make("option", { value }, words)));
}

function field(text, element, hint = null) {
  if (hint) element.setAttribute("aria-describedby", `${element.id}-hint`);
  return make("div", { class: "field" }, make("label", { for: element.id }, text), element, hint && make("span", { id: `${element.id}-hint`, class: "quiet" }, hint));
}
