// A button that needs a second press to act.
import { make } from "./dom.js";

// The button pressed last. It stays asked for a while, also when the list around it is redrawn.
let asked = {};
const STAYS_MS = 10_000;

// `key` identifies the action, so that a redraw cannot confuse two buttons.
export function sure(key, label, about, act, done) {
  const place = make("span", { class: "sure" });
  const button = (kind, text) => make("button", { type: "button", class: kind }, text, make("span", { class: "unseen" }, about));
  const end = button("plain", label), really = button("deny", `Really ${label[0].toLowerCase()}${label.slice(1)}`);
  const forget = () => { asked = {}; };
  end.addEventListener("click", () => {
    asked = { key, until: Date.now() + STAYS_MS };
    place.replaceChildren(really);
    really.focus();
  });
  // Chromium also sends a blur when a redraw removes the button, so check a moment later.
  really.addEventListener("blur", () => setTimeout(() => {
    if (really.disabled || !really.isConnected || really === document.activeElement) return;
    forget();
    place.replaceChildren(end);
  }));
  really.addEventListener("click", async () => {
    forget();
    really.disabled = true;
    const answer = await act().catch(() => null);
    if (answer?.ok) { really.disabled = false; place.replaceChildren(end); await done(answer.value); return; }
    place.replaceChildren(end, make("p", { class: "problem", role: "alert" }, answer?.value.detail ?? "Not done: the gateway did not answer."));
  });
  const still = asked.key === key && Date.now() < asked.until;
  place.append(still ? really : end);
  if (still) queueMicrotask(() => really.focus());
  return place;
}
