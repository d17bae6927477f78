// One request as a card, and its keyboard letters. The gateway decides the content; this lays it out.
import { diff, line, lines, make, plain, told } from "./dom.js";
import { clock, countdown } from "./time_left.js";
import { button, controls, icon, idle, leadsToReveal, next, problem, questions, reveal, whole } from "./decision_panels.js";

// `view` holds the page's state of the card: its draft, whether decisions are possible, and the actions.
export function card(item, view) {
  const pending = item.status === "pending";
  const article = make("article", {
    class: `card ${item.status} tone-${item.tone} risk-${item.risk}${item.idle ? " idle" : ""}`,
    tabindex: "-1",
    "data-id": item.id,
    "aria-labelledby": `title-${item.id}`,
  });
  article.append(...body(item, view));
  if (pending) article.append(...asking(item, view));
  if (!pending || item.refusal || !view.draft.panel) article.append(...problem(view));
  if (!pending || item.refusal) article.append(next());
  article.append(pending ? about(item, view) : make("div", { class: "foot" }, more(item, view), item.opened ? links(item) : null, item.opened ? small(item) : null));
  return article;
}

// In order: summary, short findings, the call, other findings, facts, and the agent's statement.
export function body(item, view) {
  const pending = item.status === "pending";
  const rest = () => [...content(item, view), ...below(item, view), facts(item), ...because(item), ...words(item, view)];
  return pending
    ? [idle(item), summary(item), ...above(item), ...rest()].filter(Boolean)
    : [state(item), summary(item), ...answers(item), ...ending(item), ...(item.opened ? rest() : [])];
}

function summary(item) {
  const named = item.summary.map(([text, name]) => make(name ? "code" : "span", {}, ...line(text)));
  return make("h2", { class: "head", id: `title-${item.id}` }, ...named);
}

function state(item) {
  const ended = item.ending ? line(item.ending) : [item.word];
  return make("p", { class: "outcome" }, make("span", { class: "state" }, icon(item), ...ended),
    make("span", { class: "when" }, `, ${clock(item.decided_at ?? item.created)}`),
    ...(item.result ? [" · ", make("span", { class: "result" }, ...line(item.result))] : []), make("span", { class: "place" }));
}

// The answer to each question; the gateway's words look different from a person's.
function answers(item) {
  if (!item.answers.length) return [];
  return [make("dl", { class: "answers" }, ...item.answers.map(({ question, given, words: ours }) => make("div", {},
    make("dt", {}, ...line(question)), make("dd", { class: given ? "" : "quiet" }, ...(given ? line(given) : [ours])))))];
}

// The facts that a pending card shows at once; Details shows the others.
const PLACED = ["Agent", "Tool", "Host", "Folder"];

function facts(item) {
  if (item.status !== "pending") return told(item.facts);
  return make("div", { class: "line" }, told(item.facts.filter(([label]) => PLACED.includes(label))), countdown(item));
}

export function about(item, view) {
  const box = make("details", { class: "about" },
    make("summary", { "data-key": "about" }, "Details"), told(item.facts.filter(([label]) => !PLACED.includes(label))), links(item), small(item));
  return make("div", { class: "foot" }, box, make("span", { class: "small" }, make("span", {}, view.busy ? "Sending…" : item.idle ? "" : item.word), make("span", { class: "place" })));
}

// Why no grant covers the request.
function because(item) {
  return item.because ? [make("p", { class: "quiet because" }, ...line(item.because))] : [];
}

// A long finding is folded: it shows its beginning and its end.
function finding(text, item, short = null, key = "") {
  const dress = { class: `${item.alarms ? "alarm" : "notice"} finding` };
  return short ? make("details", dress, make("summary", { "data-key": key }, "⚠️ ", ...line(short)), make("p", {}, ...line(text)))
    : make("p", dress, "⚠️ ", ...line(text));
}

const MOST_FOUND = 3; // others are folded

// The findings, without the first `from`, which are above.
function found(item, from = 0) {
  const made = item.findings.map((text, at) => finding(text, item, item.shorts[at], `found-${at}`)).slice(from);
  if (made.length <= MOST_FOUND + 1) return made;
  return [...made.slice(0, MOST_FOUND), make("details", { class: "found" },
    make("summary", { "data-key": "found" }, `${made.length - MOST_FOUND} more findings`), ...made.slice(MOST_FOUND))];
}

function reasons(texts, item, why) {
  if (!texts.length && !why) return [];
  return [make("div", { class: `reasons ${item.risk}` }, why ? make("p", {}, why) : null,
    texts.length ? make("ul", {}, ...texts.map((text) => make("li", {}, ...line(text)))) : null)];
}

// The findings and reasons that the gateway chose to come before the call.
function above(item) {
  const { mark, findings, reasons: why } = item.above;
  return [...reasons(why, item, mark), ...findings.map((text) => finding(text, item))];
}

function below(item, view) {
  if (item.status !== "pending") return found(item);
  const { findings, reasons: why } = item.above;
  const made = [...reasons(item.reasons.slice(why.length), item, ""), ...found(item, findings.length)];
  if (item.claim) {
    const who = item.claim.mine ? "You are looking at it." : `${item.claim.by} is looking at it.`;
    made.push(make("p", { class: "claimed" }, who));
  }
  // The confirmation panel shows these steps itself.
  const notices = [...item.notices, item.steps && view.draft.panel !== "confirm" ? `${item.steps} ${item.tries}` : null];
  return [...made, ...notices.filter(Boolean).map((text) => make("p", { class: "notice" }, text))];
}

function content(item, view) {
  const made = item.blocks.map((piece, at) => block(item, piece, `block-${at}`, view));
  if (item.status === "pending" && !item.complete) {
    made.push(make("div", { class: "cut" },
      make("p", {}, `Cut here: ${item.size}. Open everything before you approve.`),
      item.refusal ? whole(item, view) : null));
  }
  if (item.changed_by) made.push(make("h3", {}, ...line(item.changed_by)), diff(item.changed, "Changes"));
  made.push(...masks(item, view));
  if (item.status === "pending" && item.opened && view.draft.wide) made.push(make("div", { class: "quiet-row" }, more(item, view)));
  return made;
}

// The number of masks, beside the Reveal button. If it must be pressed first, the button is at the bottom.
function masks(item, view) {
  if (item.revealed) return [make("p", { class: "quiet" }, "Secrets are shown and marked. The audit records who looked.")];
  if (!item.masks) return [];
  const may = !item.refusal && view.acts.reveal;
  const said = [item.masks, ...(may ? [item.reveals, "The audit records who looks."] : [])].filter(Boolean).join(" ");
  return [make("div", { class: `quiet-row${item.status === "pending" ? " notice" : ""}` },
    may && !leadsToReveal(item) ? reveal(item, view) : null, make("span", {}, said))];
}

function words(item, view) {
  const made = [];
  if (item.says) {
    made.push(make("blockquote", {},
      make("p", { class: "label" }, `The agent says (${item.unverified})`), make("p", {}, ...line(item.says))));
  }
  if (item.preview) made.push(block(item, { ...item.preview, label: `the agent's preview (${item.unverified})` }, "preview", view));
  return made;
}

function block(item, piece, key, view) {
  const text = make("pre", { class: piece.format, tabindex: "0", role: "region", "aria-label": piece.label, "data-key": key },
    ...lines(piece.lines, piece.format));
  // The copy is what the page shows, with escapes and masks.
  const copy = () => view.acts.copy(piece.lines.map(plain).join("\n"), text);
  const name = make("span", { class: "unseen" }, ` ${piece.label}`);
  const press = make("button", { type: "button", class: "copy", "data-key": `copy-${key}`, onclick: copy }, "Copy", name);
  const caption = make("figcaption", {}, make("span", {}, piece.label), press);
  // A single block has its name below; of several, each has its name above.
  return make("figure", {}, ...(item.blocks.length > 1 || piece !== item.blocks[0] ? [caption, text] : [text, caption]));
}

function asking(item, view) {
  const made = [];
  if (item.quorum > 1 && !item.fields.length) {
    const dots = Array.from({ length: item.quorum }, (_, at) => make("i", { class: at < item.votes.length ? "given" : "" }));
    made.push(make("p", { class: "progress" }, make("span", { class: "dots", "aria-hidden": "true" }, ...dots), item.progress));
  }
  if (item.refusal) return [...made, ...questions(item), make("p", { class: "refusal" }, `You cannot decide this: ${item.refusal}.`)];
  return [...made, controls(item, view)];
}

function more(item, view) {
  if (item.opened && !view.draft.wide) return null; // the request's page already shows all of it
  return item.opened
    ? button(view, "Show less", { key: "less", class: "plain", decides: false, run: () => view.acts.less(item) })
    : button(view, "Details", { key: "open", class: "plain", decides: false, run: () => view.acts.open(item) });
}

function ending(item) {
  const made = [];
  if (item.opened && item.progress) made.push(make("p", { class: "result" }, item.progress));
  if (!item.opened && item.changed_aside) made.push(make("p", { class: "result" }, ...line(item.changed_aside)));
  if (item.note) made.push(make("p", { class: "result" }, "Note for the record: ", ...line(item.note)));
  return made;
}

// The request's cards in chats, and the message that the agent names. The gateway builds each address from ids.
function links(item) {
  if (!item.links?.length) return null;
  const made = item.links.map(([href, text]) => make("a", { href, rel: "noreferrer noopener", target: "_blank" }, text));
  return make("p", { class: "small" }, ...made);
}

function small(item) {
  const asked = `asked ${clock(item.created)} · until ${clock(item.deadline)}`;
  return make("p", { class: "small" }, make("span", {}, asked), make("span", { class: "mono" }, `${item.short_id} · sha256 ${item.digest.slice(0, 16)}`));
}

// ------------------------------------------------------------------ the keyboard

// Letters act on the focused card.
const KEYS = [
  ["j", "next request"],
  ["k", "previous request"],
  ["a", "approve"],
  ["d", "deny"],
  ["r", "deny with a reason"],
  ["e", "edit"],
  ["i", "respond instead"],
  ["m", "remember"],
  ["x", "deny and stop"],
  ["c", "I'm looking"],
  ["o", "open everything"],
  ["Esc", "close the panel"],
];

export function listKeys(element) {
  element.append(...KEYS.flatMap(([key, means]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, means)]));
}

// `move` goes to another request. If it returns false, the focus moves between the cards of this page.
export function listen(list, { enabled, close, move = () => false }) {
  document.addEventListener("pointerdown", () => document.body.classList.remove("keys"));
  document.addEventListener("keydown", (event) => {
    document.body.classList.add("keys"); // shows the focus ring
    if (event.metaKey || event.ctrlKey || event.altKey || event.repeat) return;
    const card = document.activeElement?.closest?.(".card");
    if (event.key === "Escape" && card) { close(card.dataset.id); return; }
    if (!enabled() || event.target.matches("input,textarea,select")) return;
    if (event.key === "j") step(list, card, 1, move);
    else if (event.key === "k") step(list, card, -1, move);
    else if (event.key === "o") click(card?.querySelector('[data-key="open"]'), event);
    else if (/^[a-z]$/.test(event.key)) click(card?.querySelector(`[data-letter="${event.key}"]`), event);
  });
}

function click(button, event) {
  if (!button || button.disabled) return;
  event.preventDefault();
  button.click();
}

function step(list, card, by, move) {
  if (move(by, card)) return;
  const cards = [...list.querySelectorAll(".card")];
  const at = card ? cards.indexOf(card) + by : by > 0 ? 0 : cards.length - 1;
  const next = cards[Math.min(cards.length - 1, Math.max(0, at))];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "nearest" });
}
