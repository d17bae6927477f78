// The page: keeps a list of requests true to the gateway, and sends what people decide.
import { card } from "./card.js";
import { clock, left, make } from "./dom.js";

const list = document.getElementById("list");
const more = document.getElementById("more");
const offline = document.getElementById("offline");
const announce = document.getElementById("announce");
const items = new Map();
let view = "pending", csrf = "", next = null, online = false, at = -1;

async function api(path, body) {
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
    body: JSON.stringify(body),
  };
  const answer = await fetch(`/inbox/api/${path}`, options);
  if (answer.status === 401) {
    location.replace("/inbox/login");
    throw new Error("signed out");
  }
  const value = await answer.json();
  return { ok: answer.ok, status: answer.status, value };
}

// Unlike randomUUID this is there without TLS too, as on a phone in the same network.
function nonce() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

const actions = { act, open, compare };

async function act(item, body) {
  if (!online) return;
  const shown = items.get(item.id);
  const element = list.querySelector(`[data-id="${item.id}"]`);
  for (const button of element.querySelectorAll("button")) button.disabled = true;
  const sent = { ...body, revision: shown.revision, full: shown.full, nonce: nonce() };
  const answer = await api(`requests/${item.id}/decide`, sent).catch(() => null);
  if (answer?.ok) {
    put(answer.value);
    say(`${answer.value.status}: ${item.agent}`);
    return;
  }
  if (answer?.value.request) put(answer.value.request);
  else render(item.id);
  const text = answer?.value.detail ?? "Not recorded: the gateway did not answer. Try again.";
  list.querySelector(`[data-id="${item.id}"]`)?.append(make("p", { class: "warning", role: "alert" }, `⚠ ${text}`));
}

async function open(item) {
  const answer = await api(`requests/${item.id}?full=1`);
  if (answer.ok) put(answer.value);
}

async function compare(item, changed) {
  const answer = await api(`requests/${item.id}/diff`, { arguments: changed });
  return answer.ok ? answer.value : null;
}

function fits(item) {
  return view === "pending" ? true : item.status !== "pending";
}

function put(item) {
  const fresh = !items.has(item.id);
  items.set(item.id, item);
  if (view === "sessions" || !fits(item)) return fresh;
  render(item.id);
  count();
  return fresh;
}

function render(id) {
  const item = items.get(id);
  const old = list.querySelector(`[data-id="${id}"]`);
  const made = card(item, actions);
  made.classList.toggle("offline", !online);
  if (!old) list.prepend(made);
  else {
    const focused = old.contains(document.activeElement);
    old.replaceWith(made);
    if (focused) made.focus();
  }
  list.querySelector(".empty")?.remove();
}

function count() {
  const waiting = [...items.values()].filter((item) => item.status === "pending").length;
  if (view === "pending") document.getElementById("count").textContent = waiting || "";
  document.title = waiting ? `(${waiting}) Approvals` : "Approvals";
}

function say(text) {
  announce.textContent = text;
}

async function load(after) {
  const answer = await api(`requests?status=${view}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
  if (!answer.ok) return;
  if (!after) { items.clear(); list.replaceChildren(); }
  for (const item of answer.value.items) {
    items.set(item.id, item);
    list.append(card(item, actions));
  }
  next = answer.value.next;
  more.hidden = !next;
  if (!items.size) {
    list.replaceChildren(make("p", { class: "empty" }, view === "pending" ? "Nothing waits for you." : "Nothing was decided yet."));
  }
  count();
}

async function sessions() {
  const answer = await api("sessions");
  const rows = answer.value.items.map((row) => make("tr", {},
    make("td", {}, row.agent), make("td", {}, row.name), make("td", {}, clock(row.last_seen))));
  const head = make("tr", {}, ...["Agent", "Session", "Last request"].map((text) => make("th", { scope: "col" }, text)));
  list.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
  more.hidden = true;
}

async function refresh() {
  await (view === "sessions" ? sessions() : load());
}

async function changed(id, type) {
  if (view === "sessions") return;
  const known = items.get(id);
  const answer = await api(`requests/${id}${known?.full && known?.long ? "?full=1" : ""}`);
  if (!answer.ok) return;
  const busy = list.querySelector(`[data-id="${id}"] .extra`)?.contains(document.activeElement);
  if (busy && known.revision === answer.value.revision) return;
  if (put(answer.value) && type === "submitted") arrived(answer.value);
}

function arrived(item) {
  say(`New request from ${item.agent}`);
  if (document.getElementById("sound").checked) beep();
  if (document.getElementById("notify").checked && Notification.permission === "granted") {
    new Notification("Approval needed", { body: `from ${item.agent}`, tag: item.id });
  }
}

function beep() {
  const audio = new AudioContext();
  const tone = audio.createOscillator();
  tone.connect(audio.destination);
  tone.start();
  tone.stop(audio.currentTime + 0.12);
}

function connection(state) {
  online = state;
  offline.hidden = state;
  for (const element of list.querySelectorAll(".card")) element.classList.toggle("offline", !state);
}

function follow() {
  const stream = new EventSource("/inbox/api/changes");
  // Subscribed first, then read: nothing can fall between the two.
  stream.addEventListener("ready", async () => { await refresh(); connection(true); });
  stream.addEventListener("message", (event) => {
    const { id, type } = JSON.parse(event.data);
    changed(id, type);
  });
  stream.addEventListener("error", () => connection(false));
}

function move(step) {
  const cards = [...list.querySelectorAll(".card")];
  at = Math.min(cards.length - 1, Math.max(0, at + step));
  cards[at]?.focus();
  cards[at]?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input,textarea,select") || event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if ("ade".includes(event.key)) {
    const button = document.activeElement.closest?.(".card")?.querySelector(`[data-key="${event.key}"]`);
    if (button && !button.disabled) { event.preventDefault(); button.click(); }
  }
});

for (const button of document.querySelectorAll("nav button")) {
  button.addEventListener("click", async () => {
    view = button.dataset.view;
    for (const one of document.querySelectorAll("nav button")) one.setAttribute("aria-pressed", String(one === button));
    items.clear();
    await refresh();
  });
}
for (const name of ["sound", "notify"]) {
  const box = document.getElementById(name);
  box.checked = localStorage.getItem(name) === "on";
  box.addEventListener("change", () => {
    localStorage.setItem(name, box.checked ? "on" : "off");
    if (name === "notify" && box.checked) Notification.requestPermission();
  });
}
more.addEventListener("click", () => load(next));
document.getElementById("signout").addEventListener("click", async () => {
  await api("logout", {});
  location.replace("/inbox/login");
});
setInterval(() => {
  for (const element of list.querySelectorAll(".countdown")) element.textContent = left(Number(element.dataset.deadline));
}, 1000);

const me = await api("me");
csrf = me.value.csrf;
document.getElementById("who").textContent = me.value.name;
follow();
