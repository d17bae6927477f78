// The agents' sessions, each with a way to end it.
import { api } from "./api.js";
import { clock, line, make } from "./dom.js";

export async function showSessions(list, say, current) {
  await table(list, {
    current,
    path: "sessions",
    none: "No agent has a session open.",
    caption: "Ending a session cancels what waits in it.",
    heads: ["Agent", "Session", "Last request"],
    cells: (row) => [make("td", {}, row.agent), make("td", {}, ...line(row.shown)), make("td", { class: "when" }, row.paused ? "until " : "", clock(row.last_seen))],
    end: (row) => row.paused ? lifting(row) : ({
      label: "End",
      name: ` the session ${row.name} of ${row.agent}`,
      path: "sessions/end",
      body: { agent: row.agent, session: row.name },
      said: (value) => `Session ended. Cancelled with it: ${value.cancelled}.`,
    }),
    say,
  });
}

function lifting(row) {
  return {
    label: "Let it ask",
    name: ` for ${row.agent}`,
    path: "agents/lift",
    body: { agent: row.agent },
    said: () => `${row.agent} may ask again.`,
  };
}

async function table(list, kind) {
  const answer = await api(kind.path);
  if (!kind.current()) return; // another view was chosen meanwhile
  const rows = answer.ok ? answer.value.items : [];
  if (!rows.length) {
    list.replaceChildren(make("div", { class: "empty" }, make("p", {}, kind.none)));
    return;
  }
  const heads = kind.heads.map((text) => make("th", { scope: "col" }, text));
  const head = make("tr", {}, ...heads, make("th", { scope: "col" }, make("span", { class: "unseen" }, "End it")));
  const made = rows.map((row) => make("tr", {}, ...kind.cells(row), ending(list, kind, kind.end(row))));
  list.replaceChildren(make("table", { class: kind.path }, make("caption", {}, kind.caption), make("thead", {}, head), make("tbody", {}, ...made)));
}

function ending(list, kind, { label, name, path, body, said }) {
  const cell = make("td", { class: "end" });
  const about = () => make("span", { class: "unseen" }, name);
  const end = make("button", { type: "button", class: "plain" }, label, about());
  const sure = make("button", { type: "button", class: "deny" }, `Really ${label.toLowerCase()}`, about());
  end.addEventListener("click", () => { cell.replaceChildren(sure); sure.focus(); });
  sure.addEventListener("blur", () => { if (!sure.disabled && sure.isConnected) cell.replaceChildren(end); });
  sure.addEventListener("click", async () => {
    sure.disabled = true;
    const answer = await api(path, body).catch(() => null);
    if (answer?.ok) {
      kind.say(said(answer.value));
      await table(list, kind);
      return;
    }
    const text = answer?.value.detail ?? "Not ended: the gateway did not answer.";
    cell.replaceChildren(end, make("p", { class: "problem", role: "alert" }, text));
  });
  cell.append(end);
  return cell;
}
