// A step-up: the field for the number that is shown where the agent waits, and the passkey.
import { kept, labelled } from "./panels.js";
import { sign } from "./passkeys.js";

const LABEL = "The number that is shown where the agent waits";
const OPTIONAL = "Without it, somebody else must approve this, too.";

// Returns the field, and what it adds to an answer. `asks` says whether it may stay empty.
export function number(item, view, asks) {
  const field = kept(view, "number", document.createElement("input"));
  Object.assign(field.element, { type: "text", inputMode: "numeric", maxLength: 3, autocomplete: "off", className: "number" });
  field.element.dataset.of = item.id;
  field.element.addEventListener("input", (event) => event.stopPropagation()); // it is no edit
  const typed = () => {
    const text = field.read().trim();
    view.draft.text.number = ""; // a wrong one does not stand there again
    return text ? { number: text } : {};
  };
  return { element: labelled(LABEL, field.element, asks?.optional ? OPTIONAL : null), typed };
}

// Has a passkey agree to an answer; returns that answer with what the passkey signed, or the problem.
export async function prove(call, sent) {
  const asked = await call("proof", sent);
  if (!asked) return { problem: null };
  if (!asked.ok) return { problem: asked.value.detail };
  const { credential, problem } = await sign(asked.value);
  return problem ? { problem } : { sent: { ...sent, proof: credential } };
}
