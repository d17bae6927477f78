// The field for a step-up: the number that is shown where the agent waits.
import { kept, labelled } from "./panels.js";

const LABEL = "The number that is shown where the agent waits";
const OPTIONAL = "Without it, somebody else must approve this, too.";

// Returns the field, and what it adds to an answer. `asks` says whether it may stay empty.
export function number(item, view, asks) {
  const field = kept(view, "number", document.createElement("input"));
  Object.assign(field.element, { type: "text", inputMode: "numeric", maxLength: 3, autocomplete: "off", className: "number" });
  field.element.dataset.of = item.id;
  const typed = () => {
    const text = field.read().trim();
    view.draft.text.number = ""; // a wrong one does not stand there again
    return text ? { number: text } : {};
  };
  return { element: labelled(LABEL, field.element, asks?.optional ? OPTIONAL : null), typed };
}
