// What is remembered: a card for each, and one press that takes back one, a session's, or all.
import { api } from "./api.js";
import { clock, line, make, plain } from "./dom.js";
import { sure } from "./sure.js";

export function grantCards(rows, say, again) {
  const live = rows.filter((row) => !row.ended), ended = rows.filter((row) => row.ended);
  const made = [];
  const suspended = live.filter((row) => row.rests).length, going = live.filter((row) => row.allows).length - suspended;
  if (suspended) made.push(make("p", { class: "notice", role: "status" }, `${suspended} of the remembered answers ${suspended === 1 ? "is suspended: it" : "are suspended: they"} may have covered more than the words said. ${going} ${going === 1 ? "stays" : "stay"} in force. Let the agent ask again and remember that anew, or revoke what is suspended.`));
  if (live.length) made.push(many(live, say, again), ...live.map((row) => card(row, say, again)));
  else made.push(make("div", { class: "empty" }, make("p", {}, "Nothing is remembered.")));
  if (ended.length) made.push(make("h2", { class: "part" }, "Ended lately"), ...ended.map((row) => card(row, say, again)));
  return make("div", { class: "grants" }, ...made);
}

function card(row, say, again) {
  const name = ` what ${row.made_by} remembered for ${row.agent}`;
  const facts = row.facts.flatMap(([label, text]) => [make("dt", {}, label), make("dd", {}, ...line(text))]);
  const ends = row.ended ? `${row.outcome}, ${clock(row.ended_at)}, ${row.uses}` : `${row.until ? `until ${clock(row.until)}` : "until revoked"}, ${row.uses}`;
  const more = make("div", { class: "quiet", "aria-live": "polite" });
  const controls = row.ended ? [] : [make("div", { class: "acts" },
    make("button", { type: "button", class: "plain", onclick: (event) => reach(row, more, event.target) }, "How far it reaches"),
    sure(row.id, "Revoke", name, () => api("grants/revoke", { id: row.id }), () => { say("Revoked: it is asked about again."); return again(); }))];
  return make("article", { class: `card grant${row.ended ? " ended" : ""}`, "data-grant": row.id },
    make("h2", {}, `${row.icon} ${row.word} · `, ...line(row.tool)),
    make("p", { class: "covers" }, make("strong", { class: row.allows ? "allow-word" : "deny-word" }, row.ended ? "Covered: " : row.allows ? "Goes through: " : "Is denied: "), ...line(row.words)),
    ...row.notices.map((text) => make("p", { class: "notice" }, text)),
    make("dl", { class: "facts" }, ...facts),
    make("p", { class: "quiet" }, ends), more, ...controls);
}

async function reach(row, more, press) {
  press.disabled = true;
  const answer = await api(`grants/${row.id}`).catch(() => null);
  press.disabled = false;
  const { asked, reach: words } = answer?.ok ? answer.value : { reach: "Not known: the gateway did not answer." };
  more.replaceChildren(...(asked ? [make("p", {}, "Made from: ", make("code", {}, ...line(asked)))] : []),
    make("p", {}, words || "It was made without a request: there is no history to count."));
}

// All of them, and those of each session that has more than one.
function many(live, say, again) {
  const sessions = new Map();
  for (const row of live) if (row.session !== null) {
    const key = JSON.stringify([row.agent, row.session]);
    sessions.set(key, [...(sessions.get(key) ?? []), row]);
  }
  const end = (body) => () => api("grants/revoke-all", body);
  const done = (value) => { say(`Revoked: ${value.revoked}. What others alone may end stays.`); return again(); };
  const groups = [...sessions].filter(([, rows]) => rows.length > 1);
  return make("div", { class: "acts many" },
    sure(`all ${live.length}`, "Revoke all", ` ${live.length} that you may`, end({}), done),
    ...groups.map(([key, rows]) => sure(`${key} ${rows.length}`, "Revoke the session's", ` ${rows.length}: ${rows[0].agent}, ${plain(rows[0].where)}`,
      end({ agent: rows[0].agent, session: rows[0].session }), done)));
}
