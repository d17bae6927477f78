// One request as a card. The gateway decides what it says; this lays it out.
import { clock, countdown, diff, line, lines, make, plain } from "./dom.js";
import { button, controls } from "./panels.js";

const RISK = { low: "Low risk", medium: "Medium risk", high: "High risk" };
const SIGN = { approved: "✓", denied: "✕", expired: "–", cancelled: "–" };

// `view` is what the page knows of the card: its draft, whether it may be decided, what buttons do.
export function card(item, view) {
  const pending = item.status === "pending";
  const article = make("article", {
    class: `card ${item.status} risk-${item.risk}`,
    tabindex: "-1",
    "data-id": item.id,
    "aria-labelledby": `title-${item.id}`,
  });
  article.append(...body(item, view));
  if (pending) article.append(...asking(item, view));
  if (view.draft.problem) article.append(make("p", { class: view.draft.tone ?? "problem", role: "alert" }, view.draft.problem));
  article.append(pending ? small(item) : make("div", { class: "foot" }, more(item, view), item.opened ? small(item) : null));
  return article;
}

// What happens, what runs, what was found, who asks, what the agent says: in this order.
export function body(item, view) {
  const pending = item.status === "pending";
  const shown = pending || item.opened ? content(item, view) : [];
  const whole = pending || item.opened;
  const asked = whole ? [...found(item), ...(pending ? warnings(item) : []), facts(item), ...because(item), ...words(item, view)] : [];
  return pending
    ? [head(item), ...shown, ...asked]
    : [state(item), head(item), ...ending(item), ...shown, ...asked];
}

function head(item) {
  const named = item.head.map(([text, name]) => (name ? make("code", {}, ...line(text)) : make("span", {}, ...line(text))));
  const title = make("h2", { id: `title-${item.id}` }, ...named);
  const waits = item.status === "pending";
  return make("div", { class: "head" }, title,
    waits ? countdown(item) : null);
}

function state(item) {
  const ended = item.ending ? line(item.ending) : [item.word];
  return make("p", { class: "outcome" }, make("span", { class: "state" }, `${SIGN[item.status]} `, ...ended),
    make("span", { class: "when" }, `, ${clock(item.decided_at ?? item.created)}`),
    ...(item.result ? [" · ", make("span", { class: "result" }, ...line(item.result))] : []), make("span", { class: "place" }));
}

function facts(item) {
  const told = item.facts.flatMap(([label, text]) => [make("dt", {}, label), make("dd", {}, ...line(text))]);
  return make("dl", { class: "facts" }, ...told);
}

// What kept a remembered approval from covering it.
function because(item) {
  return item.because ? [make("p", { class: "quiet because" }, ...line(item.because))] : [];
}

function found(item) {
  const look = item.alarms ? "alarm" : "notice";
  return item.findings.map((finding) => make("p", { class: `${look} finding` }, "⚠️ ", ...line(finding)));
}

function warnings(item) {
  const found = [];
  if (item.claim) {
    const who = item.claim.mine ? "You said that you are looking at it." : `${item.claim.by} is looking at it.`;
    found.push(make("p", { class: "claimed" }, who));
  }
  if (item.reasons.length || item.risk === "high") {
    const reasons = item.reasons.map((reason) => make("li", {}, ...line(reason)));
    const why = reasons.length ? [make("p", {}, `${RISK[item.risk]}, because`), make("ul", {}, ...reasons)] : [make("p", {}, RISK[item.risk])];
    found.push(make("div", { class: `reasons ${item.risk}` }, ...why));
  }
  for (const text of item.notices) found.push(make("p", { class: "notice" }, text));
  return found;
}

function content(item, view) {
  const made = item.blocks.map((piece, at) => block(item, piece, `block-${at}`, view));
  if (item.status === "pending" && !item.complete) {
    made.push(make("div", { class: "cut" },
      make("p", {}, `Cut here: ${item.size}. You can approve once you have opened everything.`),
      button(view, "Open everything", { key: "open", class: "strong", run: () => view.acts.open(item) })));
  }
  if (item.changed_by) made.push(make("h3", {}, ...line(item.changed_by)), diff(item.changed, "What was changed"));
  const tools = make("div", { class: "quiet-row" });
  if ((item.masked || item.hides) && !item.revealed && !item.refusal && view.acts.reveal) {
    tools.append(button(view, "Reveal secrets", { key: "reveal", class: "plain", run: () => view.acts.reveal(item) }),
      make("span", { class: "quiet" }, "who looked is written down"));
  }
  if (item.status === "pending" && item.opened && view.acts.less) tools.append(more(item, view));
  if (tools.childElementCount) made.push(tools);
  return made;
}

function words(item, view) {
  const made = [];
  if (item.says) {
    made.push(make("blockquote", {},
      make("p", { class: "label" }, "The agent says (unverified)"), make("p", {}, ...line(item.says))));
  }
  if (item.preview) made.push(block(item, { ...item.preview, label: "the agent's own preview (unverified)" }, "preview", view));
  return made;
}

function block(item, piece, key, view) {
  const text = make("pre", { class: piece.format, tabindex: "0", role: "region", "aria-label": piece.label, "data-key": key },
    ...lines(piece.lines, piece.format));
  // What is copied is what is seen: escapes stay escapes, and masks stay masks.
  const copy = () => view.acts.copy(piece.lines.map(plain).join("\n"), text);
  const name = make("span", { class: "unseen" }, ` ${piece.label}`);
  const press = make("button", { type: "button", class: "copy", "data-key": `copy-${key}`, onclick: copy }, "Copy", name);
  return make("figure", {}, make("figcaption", {}, make("span", {}, piece.label), press), text);
}

function asking(item, view) {
  const made = [];
  if (item.quorum > 1) {
    const dots = Array.from({ length: item.quorum }, (_, at) => make("i", { class: at < item.votes.length ? "given" : "" }));
    made.push(make("p", { class: "progress" }, make("span", { class: "dots", "aria-hidden": "true" }, ...dots), item.progress));
  }
  if (item.refusal) return [...made, make("p", { class: "refusal" }, `You cannot decide this: ${item.refusal}.`)];
  return [...made, controls(item, view)];
}

function more(item, view) {
  return item.opened
    ? button(view, "Show less", { key: "less", class: "plain", run: () => view.acts.less(item) })
    : button(view, "Details", { key: "open", class: "plain", run: () => view.acts.open(item) });
}

function ending(item) {
  const made = [];
  if (item.opened && item.progress) made.push(make("p", { class: "result" }, item.progress));
  if (!item.opened && item.changed_by) made.push(make("p", { class: "result" }, ...line(item.changed_by)));
  if (item.note) made.push(make("p", { class: "result" }, "Note for the record: ", ...line(item.note)));
  return made;
}

export function small(item) {
  const asked = `asked ${clock(item.created)} · until ${clock(item.deadline)}`;
  const waits = item.status === "pending" ? [make("span", { class: "state" }, item.word), make("span", { class: "place" })] : [];
  return make("p", { class: "small" }, ...waits, make("span", {}, asked), make("span", { class: "mono" }, `${item.short_id} · sha256 ${item.digest.slice(0, 16)}`));
}
