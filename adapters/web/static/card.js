// One request as a card. `act(item, body)` sends a decision; `open(item)` fetches the full text.
import { clock, diff, left, line, lines, make } from "./dom.js";

const RISK = { low: "○ low risk", medium: "◐ medium risk", high: "● high risk" };
const KIND = { tool: "Tool", command: "Command", file_change: "File change", plan: "Plan", question: "Question" };
const ENDED = { approved: "✓ Approved", denied: "✕ Denied", expired: "– Expired", cancelled: "– Cancelled" };

export function card(item, { act, open, compare }) {
  const pending = item.status === "pending";
  const article = make("article", {
    class: `card ${item.status} risk-${item.risk.level}`,
    tabindex: "-1",
    "data-id": item.id,
    "aria-label": `${KIND[item.kind]} ${plain(item.tool)} from ${item.agent}, ${item.status}`,
  });
  article.append(head(item, pending), meta(item), ...body(item, open));
  if (item.changed) article.append(make("h3", {}, "Changed by an approver"), diff(item.changed));
  if (item.says) {
    article.append(make("blockquote", {},
      make("p", { class: "label" }, "The agent says (unverified)"), make("p", {}, ...line(item.says))));
  }
  if (item.preview) article.append(block({ ...item.preview, label: "the agent's preview (unverified)" }));
  article.append(...warnings(item));
  if (pending) article.append(item.refusal ? make("p", { class: "quiet" }, `You cannot decide this: ${item.refusal}.`) : controls(item, { act, open, compare }));
  else article.append(ending(item));
  article.append(small(item));
  return article;
}

function plain(text) {
  return typeof text === "string" ? text : text.map(([part]) => part).join("");
}

function head(item, pending) {
  const status = pending
    ? make("span", { class: "countdown", "data-deadline": item.deadline }, left(item.deadline))
    : make("span", { class: "status" }, ENDED[item.status]);
  return make("div", { class: "head" },
    make("h2", {}, ...line(item.tool)),
    make("span", { class: "chip risk" }, RISK[item.risk.level]),
    status);
}

function meta(item) {
  const where = [item.host, item.cwd].filter(Boolean).flatMap((text) => [" · ", ...line(text)]);
  return make("p", { class: "meta" }, `${KIND[item.kind]} from `, make("strong", {}, item.agent),
    " · session ", ...line(item.session), ...where);
}

function block(piece) {
  const text = make("pre", { class: piece.format, tabindex: "0" }, ...lines(piece.lines));
  return make("figure", {}, make("figcaption", {}, ...line(piece.label)), text);
}

function body(item, open) {
  if (item.questions.length) return [make("h3", {}, "A question for you")];
  const blocks = item.blocks.map(block);
  if (item.full) return blocks;
  const cut = make("p", { class: "cut" },
    `${item.lines} of ${item.total_lines.toLocaleString("en").replace(/,/g, " ")} lines shown. `,
    make("button", { type: "button", onclick: () => open(item) }, "Open full text"));
  return [...blocks, cut];
}

function warnings(item) {
  const found = [];
  if (item.hidden) found.push("Invisible or reordering characters were made visible ⟨like this⟩.");
  if (item.mixed_script) found.push("Some letters only look like Latin ones; they are marked.");
  if (!item.waiting && item.status === "pending") found.push("Nobody waits for this answer any more.");
  for (const reason of item.risk.reasons) found.push(plain(reason));
  return found.map((text) => make("p", { class: "warning" }, `⚠ ${text}`));
}

function controls(item, { act, compare }) {
  const allowed = new Set(item.allowed);
  const box = make("div", { class: "controls" });
  const extra = make("div", { class: "extra" });
  const show = (content) => { extra.replaceChildren(content); content.querySelector("textarea,input,select")?.focus(); };
  if (item.quorum > 1) box.append(make("p", { class: "quiet" }, `${item.votes.length} of ${item.quorum} approvals${item.votes.length ? `: ${item.votes.join(", ")}` : ""}`));
  if (item.questions.length) box.append(form(item, act));
  const row = make("div", { class: "row" });
  if (allowed.has("approve")) {
    const approve = () => (item.risk.level === "high"
      ? show(sure(item, act))
      : act(item, { action: "approve" }));
    row.append(make("button", { type: "button", class: "approve", "data-key": "a", disabled: !item.full, onclick: approve }, "Approve"));
  }
  row.append(make("button", { type: "button", class: "deny", "data-key": "d", onclick: () => act(item, { action: "deny" }) }, "Deny"));
  const more = make("div", { class: "row more" });
  more.append(make("button", { type: "button", class: "plain", onclick: () => show(words(item, act)) }, "Deny with a reason"));
  if (allowed.has("edit")) more.append(make("button", { type: "button", class: "plain", "data-key": "e", disabled: !item.full, onclick: () => show(edit(item, act, compare)) }, "Edit"));
  if (allowed.has("respond")) more.append(make("button", { type: "button", class: "plain", onclick: () => show(respond(item, act)) }, "Answer instead"));
  if (allowed.has("abort")) more.append(make("button", { type: "button", class: "plain", onclick: () => act(item, { action: "abort" }) }, "Stop the turn"));
  if (allowed.has("approve") && !item.full) box.append(make("p", { class: "quiet" }, "Approve is possible once the full text is open."));
  box.append(row, more, extra);
  return box;
}

function sure(item, act) {
  return make("div", { role: "group", "aria-label": "Confirm a high risk" },
    make("p", {}, "This is high risk. Approve it, exactly as shown?"),
    make("button", { type: "button", class: "approve", onclick: () => act(item, { action: "approve", confirmed: true }) }, "Yes, approve"));
}

function words(item, act) {
  const text = make("textarea", { rows: "3", id: `why-${item.id}` });
  const deny = (feedback) => act(item, { action: "deny", message: text.value, feedback });
  return make("div", {}, make("label", { for: text.id }, "Words for the agent"), text,
    make("div", { class: "row" },
      make("button", { type: "button", class: "deny", onclick: () => deny(false) }, "Deny"),
      make("button", { type: "button", class: "plain", onclick: () => deny(true) }, "Ask for another plan")));
}

function edit(item, act, compare) {
  const text = make("textarea", { rows: "8", class: "code", spellcheck: "false", id: `edit-${item.id}` });
  text.value = item.editable;
  const says = make("div", { role: "status" });
  const check = async () => {
    let parsed;
    try { parsed = JSON.parse(text.value); } catch (error) { says.replaceChildren(make("p", { class: "warning" }, `This is not JSON: ${error.message}`)); return; }
    const found = await compare(item, parsed);
    if (!found) return;
    if (!found.changed.length) { says.replaceChildren(make("p", {}, "Nothing is changed.")); return; }
    says.replaceChildren(diff(found.changed), make("button", { type: "button", class: "approve", onclick: () => act(item, { action: "edit", arguments: parsed, confirmed: true }) }, "Approve with these changes"));
  };
  return make("div", {}, make("label", { for: text.id }, "Arguments that will run, as JSON"), text,
    make("button", { type: "button", class: "plain", onclick: check }, "Show the changes"), says);
}

function respond(item, act) {
  const text = make("textarea", { rows: "3", id: `respond-${item.id}` });
  return make("div", {}, make("label", { for: text.id }, "The agent gets this instead of running it"), text,
    make("button", { type: "button", class: "approve", onclick: () => act(item, { action: "respond", result: text.value, confirmed: true }) }, "Send"));
}

function form(item, act) {
  const fields = item.questions.map((question) => field(item, question));
  const send = (event) => {
    event.preventDefault();
    const answers = {};
    for (const { id, read } of fields) { const value = read(); if (value !== undefined) answers[id] = value; }
    act(item, { action: "answer", answers, confirmed: true });
  };
  return make("form", { onsubmit: send }, ...fields.map(({ element }) => element),
    make("button", { type: "submit", class: "approve" }, "Send answer"));
}

function field(item, question) {
  const id = `field-${item.id}-${question.id}`;
  const kind = question.kind ?? "text";
  const options = question.options ?? [];
  const needed = question.required !== false;
  let input, read;
  if (kind === "choice" || kind === "choices") {
    input = make("select", { id, multiple: kind === "choices", required: needed },
      ...(kind === "choice" ? [make("option", { value: "" }, "Choose…")] : []),
      ...options.map((option) => make("option", { value: option.value }, option.label || option.value)));
    read = () => (kind === "choice" ? input.value || undefined : [...input.selectedOptions].map((one) => one.value));
  } else if (kind === "boolean") {
    input = make("input", { id, type: "checkbox" });
    read = () => input.checked;
  } else {
    const type = question.secret ? "password" : kind === "number" ? "number" : "text";
    input = make("input", { id, type, step: kind === "number" ? "any" : null, required: needed, autocomplete: "off" });
    read = () => (input.value === "" ? undefined : kind === "number" ? Number(input.value) : input.value);
  }
  const label = make("label", { for: id }, ...line(question.text), question.secret ? make("span", { class: "quiet" }, " (secret: only the agent gets it)") : null);
  return { id: question.id, read, element: make("div", { class: "field" }, label, input) };
}

function ending(item) {
  const parts = [make("p", { class: "ended" }, ...line(item.ended.says), ` · ${clock(item.ended.at)}`)];
  if (item.report) {
    const took = item.report.duration_ms == null ? "" : ` in ${item.report.duration_ms} ms`;
    parts.push(make("p", { class: "quiet" }, `The agent reports: ${item.report.execution}${took}`));
  }
  return make("div", {}, ...parts);
}

function small(item) {
  return make("p", { class: "small" }, `asked ${clock(item.created)} · until ${clock(item.deadline)} · ${item.id.slice(0, 8)} · sha256 ${item.digest.slice(0, 12)}`);
}
