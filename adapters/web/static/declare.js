// What a call's values are that nobody declared, and the form by which an admin says it.
import { line, make } from "./dom.js";
import { button, chosen, kept, labelled, radios } from "./panels.js";

export function declare(item, view) {
  const { text, danger } = view.draft;
  const rows = item.undeclared.map((one) => make("li", {}, make("code", {}, ...line(one.name)), ` ${one.what}`));
  const made = make("div", { class: "stack" },
    make("p", {}, "Nobody declared what these are, so an answer that is remembered covers only the same values:"),
    make("ul", { class: "undeclared" }, ...rows));
  if (!view.admin) {
    made.append(make("p", { class: "quiet" }, "An admin can say here what they are."));
    return made;
  }
  if (danger) return sure(item, view, danger);
  const named = item.undeclared.filter((one) => one.address).map((one) => [one.address, line(one.name)]);
  if (named.length) {
    const address = chosen(text, "declare-address", named);
    const options = Object.entries(view.roles).map(([role, words]) => make("option", { value: role }, `${role}: ${words}`));
    // Nothing is chosen beforehand: what frees a value is never one careless press.
    const role = kept(view, "declare-role", make("select", { "data-of": item.id }, make("option", { value: "" }, "Choose…"), ...options));
    role.element.addEventListener("change", () => view.acts.redraw(item));
    made.append(radios(item, view, "declare-address", "Which one", named), labelled("What it is", role.element));
    if (role.read()) made.append(button(view, "Declare it", { key: "send-declare", class: "strong", run: () => view.acts.declare(item, { address, role: role.read() }) }));
  }
  made.append(make("p", { class: "quiet" }, `It becomes part of the policy, for ${item.agent}. The audit says who declared it.`),
    button(view, "The whole tool is harmless", { key: "send-harmless", class: "plain", run: () => view.acts.declare(item, { harmless: true }) }));
  return made;
}

function sure(item, view, { word, words }) {
  const yes = () => view.acts.declare(item, { ...word, confirmed: true });
  return make("div", { class: "stack", role: "group", "aria-label": "Confirm what is freed" }, make("p", { class: "sure" }, words),
    make("div", { class: "main" },
      button(view, "Declare it all the same", { key: "sure-declare", class: "approve", run: yes }),
      button(view, "Back", { key: "back-declare", class: "strong", run: () => { view.draft.danger = null; view.acts.redraw(item); } })));
}
