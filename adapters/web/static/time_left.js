// The time left until a deadline, by the gateway's clock.
import { make } from "./dom.js";

// The difference to the device's clock, which may be wrong.
let ahead = 0;

export function setClock(now) {
  ahead = now - Date.now();
}

export function clock(ms) {
  const date = new Date(ms);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const today = date.toDateString() === new Date(Date.now() + ahead).toDateString();
  return today ? time : `${date.toLocaleDateString([], { day: "numeric", month: "short" })}, ${time}`;
}

const SOON_MS = 60_000, SOON_PART = 5; // the last minute, or the last fifth

export function countdown({ deadline, created }, kind = "countdown") {
  const made = make("span", { class: kind, "data-deadline": deadline, "data-created": created });
  tick(made);
  return made;
}

// A word beside the time says the same as its colour.
function tick(element) {
  const deadline = Number(element.dataset.deadline), whole = deadline - Number(element.dataset.created);
  const soon = deadline - Date.now() - ahead <= Math.max(SOON_MS, whole / SOON_PART);
  const time = left(deadline);
  const text = soon && element.className.startsWith("countdown") ? `ends soon: ${time}` : time;
  if (element.textContent !== text) element.textContent = text;
  element.classList.toggle("soon", soon);
}

export function tickAll(root) {
  for (const element of root.querySelectorAll("[data-deadline]")) tick(element);
}

function left(ms) {
  const seconds = Math.max(0, Math.round((ms - Date.now() - ahead) / 1000));
  if (!seconds) return "time is up";
  if (seconds >= 86400) return `${Math.round(seconds / 86400)} days left`;
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min left`;
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")} left`;
}
