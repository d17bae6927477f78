// The buttons of a request, and the panels that they open.
// Typed text is kept in the card's draft, so that a redrawn card still has it.
import { diff, line, make } from "./dom.js";

export function button(view, label, { key, run, kind = "plain", letter = null, decides = true, ...options }) {
  return make("button", {
    type: "button",
    class: options.class ?? kind,
    "data-key": key,
    "data-letter": letter,
    "data-decides": decides,
    disabled: decides && (!view.online || view.busy),
    "aria-keyshortcuts": letter,
    "aria-expanded": options.expanded == null ? null : String(options.expanded),
    onclick: run,
  }, label);
}

// The title and the draw function of each panel. Those in UNNOTED have no note.
const PANELS = {
  reason: ["Deny with a reason", reason], edit: ["Edit", edit], respond: ["Respond instead", respond],
  abort: ["Deny and stop", abort], remember: ["Remember", remember], confirm: ["", confirm], declare: ["Declare arguments", declare],
};
const UNNOTED = ["confirm", "declare"];

export function controls(item, view) {
  const offered = new Map(item.controls.map((control) => [control.action, control]));
  const box = make("div", { class: "controls" });
  const { panel, more: open } = view.draft, [title, draw] = PANELS[panel] ?? [];
  // A panel replaces the other buttons, because those would not send its typed text.
  if (draw) {
    box.append(make("div", { class: "panel stack", role: "group", "aria-label": title || "Confirm", "data-panel": panel },
      title ? make("h3", {}, title) : null, draw(item, view), ...problem(view), UNNOTED.includes(panel) ? null : note(view)));
    return box;
  }
  if (offered.has("answer")) box.append(form(item, view));
  else box.append(...questions(item));
  // The letters of hidden buttons work, too.
  box.append(main(item, view, offered), make("div", { class: "rest", hidden: !open }, others(item, view, offered), note(view)), suggested(item, view));
  return box;
}

// The gateway's suggestion. It is below the buttons, so that no button moves under a finger.
function suggested(item, view) {
  return item.suggested ? make("div", { class: "claimed stack" }, make("p", {}, item.suggested),
    button(view, "Remember…", { run: () => view.acts.panel(item, "remember") }),
    button(view, "Not again", { run: () => view.acts.tell(item, "decline", { offer: item.usual }) })) : "";
}

// Why the last decision failed, beside its buttons.
export function problem({ draft: { problem: text, tone } }) {
  return text ? [make("p", { class: tone ?? "problem", role: "alert" }, text[0].toUpperCase() + text.slice(1))] : [];
}

// A panel's send buttons, and Back.
function sends(item, view, ...buttons) {
  return make("div", { class: "main" }, ...buttons,
    button(view, "Back", { key: "back", class: "strong", decides: false, run: () => view.acts.panel(item, null) }));
}

// The bar that stays visible. It alone has the main button.
function main(item, view, offered) {
  const row = make("div", { class: "main" });
  if (item.idle) row.append(idle(item));
  if (!item.complete) row.append(whole(item, view));
  else if (leadsToReveal(item)) row.append(reveal(item, view));
  else if (offered.has("answer")) row.append(...(item.seen ? [answer(item, view)] : []));
  else if (offered.has("approve")) row.append(approve(item, view, offered.get("approve")));
  else row.append(next());
  row.append(button(view, "Deny", { key: "deny", letter: "d", class: "deny", run: () => view.acts.decide(item, { action: "deny" }) }));
  row.append(button(view, "More…", { key: "more", class: "strong", decides: false, expanded: Boolean(view.draft.more), run: () => view.acts.more(item) }));
  return row;
}

export function whole(item, view) {
  return button(view, "Open everything", { key: "open", class: "strong", decides: false, run: () => view.acts.open(item) });
}

// Approval needs the secrets revealed first.
export const leadsToReveal = (item) => item.status === "pending" && item.complete && item.hides;

export function reveal(item, view) {
  return button(view, "Reveal secrets", { key: "reveal", class: leadsToReveal(item) ? "strong" : "plain", run: () => view.acts.reveal(item) });
}

export const icon = (item) => make("span", { "aria-hidden": "true" }, `${item.icon} `);

// Why the request needs no approval now.
export function idle(item) {
  return item.idle ? make("p", { class: "idle-word" }, icon(item), item.idle) : null;
}

// The link to the next request; the queue sets its address.
export const next = () => make("a", { class: "next back", href: "/inbox", hidden: true }, "Next request");

const dress = (item) => (item.idle ? "strong" : "approve");

function answer(item, view) {
  const press = button(view, "Send answer", { key: "answer", class: dress(item) });
  press.type = "submit";
  press.setAttribute("form", formOf(item));
  return press;
}

const formOf = (item) => `form-${item.id}`;

// If one tap is not enough, the button opens the review. If the end was not visible yet, it scrolls.
function approve(item, view, { confirm: high }) {
  const key = { key: "approve", letter: "a" };
  if (view.unread && !high) return button(view, "Read on", { ...key, class: "strong", decides: false, run: () => scrollBy(0, innerHeight * 0.7) });
  return button(view, high ? "Review…" : "Approve", { ...key, class: high ? "review" : dress(item), run: () => view.acts.decide(item, { action: "approve" }) });
}

function others(item, view, offered) {
  const row = make("div", { class: "others" });
  const add = (panel, label, letter) => {
    row.append(button(view, label ?? PANELS[panel][0], { key: `to-${panel}`, letter, run: () => view.acts.panel(item, panel) }));
  };
  add("reason", null, "r");
  if (!item.fields.length && offered.has("edit")) add("edit", null, "e");
  if (!item.fields.length && offered.has("respond")) add("respond", null, "i");
  if (item.remember.approve.length || item.remember.deny.length) add("remember", "Remember…", "m");
  if (item.undeclared.length) add("declare");
  if (offered.has("abort")) add("abort", null, "x");
  const mine = item.claim?.mine;
  row.append(button(view, mine ? "No longer looking" : "I'm looking", { key: "claim", letter: "c", run: () => view.acts.tell(item, "claim", { on: !mine }) }));
  return row;
}

// A field whose text survives a redraw.
function kept(view, key, element) {
  const { text } = view.draft;
  const read = () => (element.type === "checkbox" ? element.checked : element.multiple ? [...element.selectedOptions].map((one) => one.value) : element.value);
  element.dataset.key = key;
  if (key in text) {
    if (element.type === "checkbox") element.checked = text[key];
    else if (element.multiple) for (const option of element.options) option.selected = text[key].includes(option.value);
    else element.value = text[key];
  }
  const store = () => { text[key] = read(); };
  element.addEventListener("input", store);
  element.addEventListener("change", store);
  return { element, read };
}

function labelled(text, element, hint = null) {
  const id = `${element.dataset.key}-${element.dataset.of}`;
  element.id = id;
  if (hint) element.setAttribute("aria-describedby", `${id}-hint`);
  return make("div", { class: "field" }, make("label", { for: id }, ...[text].flat()), element, hint ? make("span", { id: `${id}-hint`, class: "quiet" }, hint) : null);
}

function area(item, view, key, options = {}) {
  return kept(view, key, make("textarea", { rows: "3", "data-of": item.id, ...options }));
}

function reason(item, view) {
  const words = area(item, view, "reason");
  const deny = (feedback) => view.acts.decide(item, { action: "deny", message: words.read(), feedback });
  const tap = (why) => view.acts.decide(item, { action: "deny", message: [why, words.read()].filter(Boolean).join(". ") });
  return make("div", { class: "stack" },
    make("p", { class: "quiet" }, "One tap denies:"),
    make("div", { class: "chips" },
      ...view.denials.map((why, at) => button(view, `Deny: ${why[0].toLowerCase()}${why.slice(1)}`, { key: `deny-${at}`, class: "deny", run: () => tap(why) }))),
    labelled("Message to the agent", words.element),
    sends(item, view, button(view, "Deny", { key: "deny-reason", class: "deny", run: () => deny(false) }),
      button(view, view.another_plan, { key: "feedback", class: "strong", run: () => deny(true) })));
}

// A field for each argument, or all as JSON. The changes are shown before they are sent.
function edit(item, view) {
  const { draft } = view;
  const fields = item.edit_fields;
  const raw = Boolean(draft.text["edit-raw"]) || !fields.length;
  const made = make("div", { class: "stack" });
  if (raw && item.editable === null) {
    made.append(make("p", {}, "This call contains masked secrets. Reveal them to edit it as JSON."),
      button(view, "Reveal secrets", { key: "reveal-edit", class: "strong", run: () => view.acts.reveal(item) }));
  } else {
    const typed = raw ? asJson(item, view) : asFields(item, view);
    made.append(...typed.elements, button(view, "Show the changes", { key: "compare", class: "strong", run: () => view.acts.compare(item, typed.read()) }));
    made.addEventListener("input", () => { if (draft.changed) { draft.changed = null; made.querySelector(".checked")?.remove(); } });
  }
  const turn = () => { draft.text["edit-raw"] = !raw; draft.changed = null; view.acts.redraw(item); };
  if (fields.length) made.append(button(view, raw ? "As fields" : "As JSON", { key: "edit-raw", decides: false, run: turn }));
  if (draft.changed) {
    const { text, fields: changed } = draft.changed;
    // If only the edit makes it high risk, the gateway says so after the press.
    const control = item.controls.find((one) => one.action === "edit");
    const high = control?.confirm ?? draft.changed.high;
    const step = high && item.numbered ? number(item, view, control) : null;
    const asked = { action: "edit", ...(changed ? { fields: changed } : { edited: text }) };
    const send = () => view.acts.decide(item, { ...asked, ...step?.typed(), confirmed: Boolean(high) });
    made.append(make("div", { class: "stack checked" }, diff(draft.changed.rows, "Your changes"), high ? make("p", { class: "sure" }, high) : null, step?.element,
      button(view, "Approve with these changes", { key: "send-edit", class: "approve", run: send }),
      control?.passkey || draft.changed.passkey ? byPasskey(item, view, asked) : null));
  }
  made.append(sends(item, view));
  return made;
}

function asJson(item, view) {
  const { text } = view.draft;
  if (!("edit" in text)) text.edit = item.editable;
  const rows = Math.min(20, Math.max(4, text.edit.split("\n").length + 1));
  const words = area(item, view, "edit", { rows: String(rows), class: "code", spellcheck: "false" });
  return { elements: [labelled("Arguments as JSON", words.element)], read: () => ({ text: words.read() }) };
}

function asFields(item, view) {
  const made = item.edit_fields.map((one) => argument(item, view, one));
  const read = () => ({ fields: Object.fromEntries(made.filter(({ read: now, one }) => now() !== one.value).map(({ read: now, one }) => [one.id, now()])) });
  return { elements: made.map(({ element }) => element), read };
}

function argument(item, view, one) {
  const key = `${one.id}-${item.digest.slice(0, 8)}`; // another person's edit makes other fields
  const options = { "data-of": item.id, autocomplete: "off", spellcheck: "false" };
  const name = make("code", {}, ...line(one.label));
  const hint = one.masked ? item.unchanged : one.kind === "json" ? "As JSON" : null;
  let input;
  if (one.kind === "boolean" || one.kind === "choice") {
    const offered = one.kind === "boolean" ? [["true", "yes"], ["false", "no"]] : one.choices.map((choice, at) => [String(at), line(choice)]);
    input = make("select", { "data-of": item.id }, ...offered.map(([value, words]) => make("option", { value }, ...[words].flat())));
  } else if (one.kind === "lines" || one.kind === "json") {
    const rows = Math.min(20, Math.max(2, one.value.split("\n").length));
    input = make("textarea", { ...options, class: "code", rows: String(rows) });
  } else {
    input = make("input", { ...options, type: "text", class: "code", inputmode: one.kind === "number" ? "decimal" : null });
  }
  input.value = one.value;
  const { element, read } = kept(view, key, input);
  return { one, read, element: labelled(name, element, hint) };
}

function respond(item, view) {
  const words = area(item, view, "respond");
  const send = () => view.acts.decide(item, { action: "respond", result: words.read() });
  return make("div", { class: "stack" }, labelled("The agent gets this; the call is not run", words.element),
    sends(item, view, button(view, "Send", { key: "send-respond", class: "approve", run: send })));
}

function abort(item, view) {
  const words = area(item, view, "abort");
  const stop = (what) => view.acts.decide(item, { action: "abort", abort: what, message: words.read() });
  return make("div", { class: "stack" }, labelled("Message to the agent", words.element),
    sends(item, view, button(view, "Deny and stop the turn", { key: "abort-turn", class: "deny", run: () => stop("turn") }),
      button(view, "Deny and stop the agent", { key: "abort-agent", class: "deny", run: () => stop("agent") })));
}

// The scope is shown in words before the button.
function remember(item, view) {
  const { text } = view.draft;
  const effects = [["approve", "Approve"], ["deny", "Deny"]].filter(([name]) => item.remember[name].length);
  const effect = chosen(text, "effect", effects);
  const scopes = item.remember[effect].map(({ id, words }) => [id, line(words)]);
  const scope = chosen(text, `scope-${effect}`, scopes, { approve: item.usual }[effect]);
  const { pass, ends } = item.remember[effect].find((one) => one.id === scope);
  const places = WHERE.slice(0, pass ? 1 : 2);
  const where = chosen(text, "where", places);
  const lifetimes = Object.entries(pass ? view.pass_lifetimes : view.lifetimes);
  const lifetime = chosen(text, "lifetime", lifetimes, view.usual);
  const group = (...asked) => radios(item, view, ...asked);
  const send = () => view.acts.decide(item, { action: effect, remember: { offer: scope, everywhere: where === "everywhere", lifetime } });
  const reach = effect === "approve" && view.acts.reach(item, scope);
  return make("div", { class: "stack" },
    effects.length > 1 ? group("effect", "From now on", effects) : make("p", {}, `From now on: ${effect}`),
    group(`scope-${effect}`, "What it covers", scopes),
    reach ? make("p", { class: "notice" }, reach) : null,
    ends && group("where", "Where", places),
    ends && group("lifetime", "How long", lifetimes),
    sends(item, view, button(view, `${effect === "approve" ? "Approve" : "Deny"} and remember`, { key: "send-remember", class: effect, run: send })));
}

const PAIRED = ["effect", "lifetime"]; // short choices, two to a line
const WHERE = [["session", "in this session"], ["everywhere", "in all sessions of this agent"]];

function chosen(text, key, options, first = options[0][0]) {
  if (!options.some(([value]) => value === text[key])) text[key] = first;
  return text[key];
}

function radios(item, view, key, legend, options) {
  const name = `${key}-${item.id}`;
  return make("fieldset", { class: PAIRED.includes(key) ? "pair" : "" }, make("legend", {}, legend), ...options.map(([value, words], at) => {
    const input = make("input", { type: "radio", name, value, id: `${name}-${at}`, "data-key": `${key}-${at}` });
    input.checked = view.draft.text[key] === value;
    input.addEventListener("change", () => { view.draft.text[key] = value; view.acts.redraw(item); });
    return make("label", { class: "choice", for: input.id }, input, make("span", {}, ...[words].flat()));
  }));
}

function byPasskey(item, view, asked) {
  const run = () => view.acts.decide(item, { ...asked, confirmed: true, passkey: true });
  return button(view, "Confirm with a passkey", { key: "by-passkey", class: "approve", run });
}

function confirm(item, view) {
  const { asked } = view.draft;
  const control = item.controls.find((one) => one.action === asked.action);
  const step = control?.number ? number(item, view, control) : null;
  const yes = () => view.acts.decide(item, { ...asked, ...step?.typed(), confirmed: true });
  return make("div", { class: "stack" },
    make("p", { class: "sure" }, control?.confirm ?? ""), item.tries ? make("p", {}, item.tries) : null, step?.element,
    sends(item, view, control?.passkey && !control.number && !control.optional ? null
      : button(view, control?.yes ?? "Yes", { key: "confirm", class: "approve", run: yes }),
    control?.passkey ? byPasskey(item, view, asked) : null));
}

function note(view) {
  const { draft } = view;
  const words = kept(view, "note", make("textarea", { rows: "2", "aria-label": "Note for the record; the agent never sees it" }));
  return make("details", { class: "note", open: Boolean(draft.text.note) }, make("summary", { "data-key": "to-note" }, "Note for the record"),
    words.element, make("span", { class: "quiet" }, "Saved with your decision. The agent never sees it."));
}

// The questions, where the person cannot answer them.
export function questions(item) {
  return item.fields.length ? [make("ul", { class: "questions" }, ...item.fields.map(({ text }) => make("li", {}, ...line(text))))] : [];
}

function form(item, view) {
  const fields = item.fields.map((one, at) => field(item, view, one, `answer-${at}`));
  const send = (event) => {
    event.preventDefault();
    const answers = {};
    for (const { id, read } of fields) {
      const value = read();
      if (value !== undefined) answers[id] = value;
    }
    view.acts.decide(item, { action: "answer", answers });
  };
  return make("form", { class: "stack", id: formOf(item), onsubmit: send }, ...fields.map(({ element }) => element));
}

function field(item, view, { id, text, kind, choices, required, secret }, key) {
  const options = { "data-of": item.id, required, autocomplete: "off" };
  const label = [...line(text), required ? null : make("span", { class: "quiet" }, " (optional)")];
  let input, value;
  if (kind === "choice" || kind === "choices") {
    const several = kind === "choices";
    const made = choices.map((choice) => make("option", { value: choice.value }, choice.label));
    input = kept(view, key, make("select", { ...options, multiple: several }, ...(several ? [] : [make("option", { value: "" }, "Choose…")]), ...made));
    value = () => (several ? input.read() : input.read() || undefined);
  } else if (kind === "boolean") {
    // Not a checkbox: an untouched one would mean no.
    const offered = [["", "Choose…"], ["true", "Yes"], ["false", "No"]];
    input = kept(view, key, make("select", options, ...offered.map(([value, words]) => make("option", { value }, words))));
    value = () => (input.read() ? input.read() === "true" : undefined);
  } else {
    const type = secret ? "password" : kind === "number" ? "number" : "text";
    input = kept(view, key, make("input", { ...options, type, step: kind === "number" ? "any" : null, autocomplete: secret ? "new-password" : "off" }));
    value = () => (input.read() === "" ? undefined : kind === "number" ? Number(input.read()) : input.read());
  }
  const hint = secret ? "Secret: only the agent gets it, and the gateway does not store it." : null;
  const made = labelled(label.filter(Boolean), input.element, hint);
  return { id, read: value, element: made };
}

// ------------------------------------------------------------------ extra verification

// Return the field, and what it adds to a decision. `asks` says whether it may stay empty.
function number(item, view, asks) {
  const field = kept(view, "number", make("input", { type: "text", inputmode: "numeric", maxlength: "3", autocomplete: "off", class: "number", "data-of": item.id }));
  field.element.addEventListener("input", (event) => event.stopPropagation()); // not part of the edit
  const typed = () => {
    const text = field.read().trim();
    view.draft.text.number = ""; // clear it, as it may be wrong
    return text ? { number: text } : {};
  };
  return { element: labelled("The number that is shown where the agent waits", field.element, asks?.optional ? "If you leave it empty, a second person must approve too." : null), typed };
}

// ------------------------------------------------------------------ undeclared arguments

// The undeclared arguments of a call, and the form by which an admin declares them.
function declare(item, view) {
  const { text, danger } = view.draft;
  const rows = item.undeclared.map((one) => make("li", {}, make("code", {}, ...line(one.name)), ` ${one.what}`));
  const made = make("div", { class: "stack" },
    make("p", {}, "These arguments are undeclared, so a grant covers only these exact values:"),
    make("ul", { class: "undeclared" }, ...rows));
  if (!view.admin) {
    made.append(make("p", { class: "quiet" }, "An admin can declare these arguments here."), sends(item, view));
    return made;
  }
  if (danger) return free(item, view, danger);
  const named = item.undeclared.filter((one) => one.address).map((one) => [one.address, line(one.name)]);
  if (named.length) {
    const address = chosen(text, "declare-address", named);
    const options = Object.entries(view.roles).map(([role, words]) => make("option", { value: role }, `${role}: ${words}`));
    // Nothing is preselected, so that one careless press cannot free a value.
    const role = kept(view, "declare-role", make("select", { "data-of": item.id }, make("option", { value: "" }, "Choose…"), ...options));
    role.element.addEventListener("change", () => view.acts.redraw(item));
    made.append(radios(item, view, "declare-address", "Which one", named), labelled("What it is", role.element));
    if (role.read()) made.append(button(view, "Declare it", { key: "send-declare", class: "strong", run: () => view.acts.declare(item, { address, role: role.read() }) }));
  }
  made.append(make("p", { class: "quiet" }, `This changes the policy for ${item.agent}. The audit records who declared it.`),
    button(view, "Declare the whole tool harmless", { key: "send-harmless", class: "plain", run: () => view.acts.declare(item, { harmless: true }) }), sends(item, view));
  return made;
}

function free(item, view, { word, words }) {
  const yes = () => view.acts.declare(item, { ...word, confirmed: true });
  return make("div", { class: "stack", role: "group", "aria-label": "Confirm" }, make("p", { class: "sure" }, words),
    make("div", { class: "main" },
      button(view, "Declare anyway", { key: "sure-declare", class: "approve", run: yes }),
      button(view, "Back", { key: "back-declare", class: "strong", run: () => { view.draft.danger = null; view.acts.redraw(item); } })));
}
