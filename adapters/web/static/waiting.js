// How much waits for whoever looks: in the title of every page, at the tab, and a call when it grows.
import { ring } from "./alerts.js";
import { api } from "./api.js";
import { say } from "./dom.js";

const own = document.title;
let known = null; // when the newest was asked that this page knows of

export function show({ mine, more, newest }) {
  known ??= newest;
  const text = mine ? `${mine}${more ? "+" : ""}` : "";
  document.title = text ? `(${text}) ${own}` : own;
  const badge = document.getElementById("count");
  if (badge) badge.replaceChildren(...(text ? [text, Object.assign(document.createElement("span"), { className: "unseen", textContent: " for you" })] : []));
}

// Ask anew; what was asked meanwhile rings, but for what was there when the page came.
export async function recount() {
  const began = known;
  const answer = await api(`queue/counts?since=${began ?? 0}`);
  if (!answer.ok) throw new Error(answer.value.detail);
  const { fresh, newest } = answer.value;
  show(answer.value);
  known = Math.max(known, newest);
  if (began !== null && fresh) tell(fresh);
  return answer.value;
}

function tell(fresh) {
  const text = fresh === 1 ? "A new request waits." : `${fresh} new requests wait.`;
  say(text);
  try {
    ring(text);
  } catch (error) {
    console.warn(error); // they are extras, which a browser may refuse by throwing: the row is there
  }
}
