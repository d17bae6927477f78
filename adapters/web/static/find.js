// Looking for what ended, is remembered or happened: a form whose fields stand in the address.
import { make } from "./dom.js";

const OUTCOMES = {
  final: [["approved", "approved"], ["denied", "denied"], ["expired", "expired"], ["cancelled", "cancelled"]],
  grants: [["in force", "in force"], ["suspended", "suspended"], ["ended", "ended"]],
  audit: null,
};
const WHO = { final: "Decided by", grants: "Remembered by", audit: "Done by" };
const FIELDS = ["text", "agent", "outcome", "who", "from", "to"];

export const searches = (view) => view in OUTCOMES;

// The fields of the address that are filled in.
export function asked() {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""]).filter(([, value]) => value));
}

// What the gateway is asked: days are those of whoever looks.
export function queryOf(fields, after) {
  const { from, to, ...rest } = fields, query = new URLSearchParams(rest);
  if (from) query.set("since", midnight(from, 0));
  if (to) query.set("until", midnight(to, 1));
  if (after) query.set("after", after);
  return query.toString();
}

function midnight(day, later) {
  const [year, month, date] = day.split("-").map(Number);
  return String(Math.max(0, new Date(year, month - 1, date + later).getTime() || 0));
}

// `go` opens an address. It works as a plain form too: its fields are the address.
export function findForm(view, go) {
  const fields = asked();
  const field = (name, label, input) => {
    input.id = `find-${name}`;
    input.name = name;
    input.value = fields[name] ?? "";
    return make("div", { class: "field" }, make("label", { for: input.id }, label), input);
  };
  const text = (type = "text") => make("input", { type, maxlength: "200", autocomplete: "off" });
  const outcome = OUTCOMES[view]
    ? make("select", {}, make("option", { value: "" }, "any"), ...OUTCOMES[view].map(([value, label]) => make("option", { value }, label)))
    : text();
  const form = make("form", { action: "/inbox", method: "get", role: "search", class: "find-form" },
    make("input", { type: "hidden", name: "view", value: view }),
    field("text", "Text", text("search")), field("agent", "Agent", text()),
    field("outcome", view === "audit" ? "What happened" : "Outcome", outcome), field("who", WHO[view], text()),
    field("from", "From", text("date")), field("to", "To", text("date")),
    make("div", { class: "acts" }, make("button", { type: "submit", class: "strong" }, "Search"),
      make("a", { class: "back", href: `/inbox?view=${view}` }, "Show all")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const filled = [...new FormData(form)].filter(([, value]) => value.trim());
    go(`/inbox?${new URLSearchParams(filled)}`);
  });
  const many = Object.keys(fields).length;
  return make("details", { class: "find", open: many > 0 },
    make("summary", {}, many ? `Search, by ${many === 1 ? "one field" : `${many} fields`}` : "Search"), form);
}

// How much was found, and among how many: no search looks at everything.
export function tellFound(count, { looked, next, more }) {
  if (!Object.keys(asked()).length) return "";
  const found = count ? `${count} found` : "Nothing found";
  return next || more ? `${found} among the newest ${looked}. Older ones were not looked at.` : `${found} among all ${looked}.`;
}
