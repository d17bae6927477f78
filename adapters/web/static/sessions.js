// The agents' sessions, and their end.
import { api } from "./api.js";
import { clock, line, make } from "./dom.js";

export async function showSessions(list, say) {
  const answer = await api("sessions");
  const rows = answer.ok ? answer.value.items : [];
  if (!rows.length) {
    list.replaceChildren(make("div", { class: "empty" }, make("p", {}, "No agent has a session open.")));
    return;
  }
  const head = make("tr", {}, ...["Agent", "Session", "Last request"].map((text) => make("th", { scope: "col" }, text)), make("th", { scope: "col" }, make("span", { class: "unseen" }, "End it")));
  list.replaceChildren(make("table", { class: "sessions" }, make("caption", {}, "Ending a session cancels what waits in it."), make("thead", {}, head), make("tbody", {}, ...rows.map((row) => session(row, list, say)))));
}

function session(row, list, say) {
  const cell = make("td", { class: "end" });
  const name = make("span", { class: "unseen" }, ` the session ${row.name} of ${row.agent}`);
  const end = make("button", { type: "button", class: "plain" }, "End", name);
  const sure = make("button", { type: "button", class: "deny" }, "Really end it", name.cloneNode(true));
  end.addEventListener("click", () => { cell.replaceChildren(sure); sure.focus(); });
  sure.addEventListener("blur", () => { if (!sure.disabled) cell.replaceChildren(end); });
  sure.addEventListener("click", async () => {
    sure.disabled = true;
    const answer = await api("sessions/end", { agent: row.agent, session: row.name }).catch(() => null);
    if (answer?.ok) {
      say(`Session ended. Cancelled with it: ${answer.value.cancelled}.`);
      await showSessions(list, say);
      return;
    }
    const text = answer?.value.detail ?? "Not ended: the gateway did not answer.";
    cell.replaceChildren(end, make("p", { class: "problem", role: "alert" }, text));
  });
  cell.append(end);
  return make("tr", {}, make("td", {}, row.agent), make("td", {}, ...line(row.shown)), make("td", { class: "when" }, clock(row.last_seen)), cell);
}
