// The keyboard: letters act on the card that has the focus.
import { make } from "./dom.js";

const KEYS = [
  ["j", "next request"],
  ["k", "the one before"],
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

// `move` goes to another request; false leaves it to the cards of this page.
export function listen(list, { enabled, close, move = () => false }) {
  document.addEventListener("keydown", (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.repeat) return;
    const card = document.activeElement?.closest?.(".card");
    if (event.key === "Escape" && card) { close(card.dataset.id); return; }
    if (!enabled() || event.target.matches("input,textarea,select")) return;
    if (event.key === "j") step(list, card, 1, move);
    else if (event.key === "k") step(list, card, -1, move);
    else if (event.key === "o") press(card?.querySelector('[data-key="open"]'), event);
    else if (/^[a-z]$/.test(event.key)) press(card?.querySelector(`[data-letter="${event.key}"]`), event);
  });
}

function press(button, event) {
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
