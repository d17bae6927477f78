// The inbox page: shows the view of the address, and keeps it up to date.
import { api, openedId, signIn } from "./api.js";
import { say, settle } from "./dom.js";
import { tickAll } from "./time_left.js";
import * as queue from "./queue.js";
import { chosen, connect, follow, gather, recount, worker } from "./live_updates.js";

const byId = (id) => document.getElementById(id);
const list = byId("list"), more = byId("more"), looked = byId("looked");
const tabs = [...document.querySelectorAll("nav [data-view]")];
const wide = matchMedia("(min-width: 960px)");
let view = "pending", shown = null, next = null, online = false, leads = false, loads = 0, scrolled = 0, me = {};

const FLOOD = 20; // more changes at once than this reload the whole list

// Modules that the first view of the queue does not need are loaded after it.
let parts = null, loading = null;
function load() {
  loading ??= Promise.all([
    import("./requests.js"), import("./search_and_lists.js"), import("./card.js"), import("./operator_notices.js"),
  ]).then(([cards, views, keys, news]) => {
    parts = { cards, views, keys, news };
    cards.tellCards({ put: queue.put, drawn: queue.place });
    keys.listKeys(byId("keylist"));
    keys.listen(list, { enabled: () => chosen("keys", "on"), close: cards.closePanel, move });
  }).catch((error) => { loading = null; throw error; });
  return loading;
}

// ------------------------------------------------------------------ navigation

function go(path, state = null) {
  // From one request to another, "back" still leads to the list.
  const along = openedId() && state;
  if (!openedId()) scrolled = scrollY;
  if (along) history.replaceState(history.state && state, "", path);
  else history.pushState(state, "", path);
  route();
}

// Show the view of the address: one request, the queue, or another view.
function route() {
  leads = true;
  const id = openedId(), named = id ? "pending" : new URLSearchParams(location.search).get("view");
  const from = shown, was = document.body.classList.contains("opened");
  view = tabs.some((tab) => tab.dataset.view === named) ? named : "pending";
  // Remove the content of the previous view.
  if (view !== document.body.dataset.view) { list.replaceChildren(); parts?.cards.clear(); }
  document.body.dataset.view = view;
  document.body.classList.toggle("opened", Boolean(id));
  for (const tab of tabs) tab.setAttribute("aria-pressed", String(tab.dataset.view === view));
  const tab = tabs.find((one) => one.dataset.view === view);
  list.setAttribute("aria-label", view === "pending" ? "Request" : tab.firstChild.textContent.trim());
  more.hidden = true;
  looked.textContent = "";
  if (view !== "pending" || id !== shown) shown = null;
  byId("find").replaceChildren(...(parts?.views.searches(view) ? [parts.views.findForm(view, go)] : []));
  hand();
  const done = (view === "pending" ? showPane(id) : refresh()).catch(() => connection(false));
  if (was && !id && view === "pending" && !wide.matches) {
    scrollTo(0, scrolled);
    queue.linkOf(from)?.focus({ preventScroll: true });
  }
  return done;
}

// Show the request of the address beside the queue; without one, the first if there is room.
async function showPane(id) {
  await load();
  if (view !== "pending") return; // the person chose another view meanwhile
  const wanted = id ?? (wide.matches ? shown ?? queue.first() : null);
  if (!wanted) {
    shown = null;
    queue.mark(null);
    parts.cards.clear(wide.matches && !queue.first() ? null : ["No request is open", "Choose one from the list."]);
    return;
  }
  const fresh = wanted !== shown;
  shown = wanted;
  queue.mark(wanted);
  if (fresh && id && !wide.matches) {
    parts.cards.clear(["Opening…", ""]);
    scrollTo(0, 0);
  }
  const card = await parts.cards.showOne(wanted, Boolean(id) && !history.state?.listed);
  queue.mark(shown);
  if (!card || !id || !leads) return;
  leads = false;
  enter(card);
}

// Focus the card, so that letters act on it, unless the focus is already inside.
function enter(card) {
  if (card && !card.contains(document.activeElement)) card.focus({ preventScroll: true });
}

// A key moves to another request. In other views, return false: the key moves between cards.
function move(step, card) {
  if (view !== "pending") return false;
  const open = list.querySelector(".card");
  const visible = open?.checkVisibility();
  if (visible && !card && queue.has(shown)) { open.focus({ preventScroll: true }); return true; }
  const id = queue.neighbour(visible ? shown : document.activeElement?.dataset.row, step);
  if (!id) return true;
  if (!visible) { queue.linkOf(id)?.focus(); return true; }
  go(`/inbox/r/${id}`, { listed: true });
  loading.then(() => showPane(id)).then(() => enter(list.querySelector(".card"))).catch(() => connection(false));
  return true;
}

byId("panes").addEventListener("click", (event) => {
  const link = event.target.closest("a.row-link, a.next");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go(link.pathname, { listed: true });
});
byId("back").addEventListener("click", (event) => {
  event.preventDefault();
  if (history.state?.listed) history.back();
  else go("/inbox");
});
for (const tab of tabs) {
  tab.addEventListener("click", () => {
    go(tab.dataset.view === "pending" ? "/inbox" : `/inbox?view=${tab.dataset.view}`);
  });
}
addEventListener("popstate", route);
wide.addEventListener("change", () => online && view === "pending" && showPane(openedId()).catch(() => connection(false)));

// ------------------------------------------------------------------ data from the gateway

const SHOWS = {
  final: (value, after) => {
    parts.cards.showMany(value.items, after);
    if (!list.childElementCount) list.replaceChildren(parts.cards.nothing(...emptyHistory()));
  },
  sessions: (value) => list.replaceChildren(parts.views.sessionTable(value.items, say, again)),
  grants: (value) => list.replaceChildren(parts.views.grantCards(value.items, say, again)),
  audit: (value) => list.replaceChildren(parts.views.auditTable(value.items)),
};

function emptyHistory() {
  return Object.keys(parts.views.asked()).length
    ? ["Nothing found", "Search with fewer fields."]
    : ["Nothing was decided yet", "Decided requests are listed here."];
}

const again = () => refresh().catch(() => connection(false));

async function refresh(after = null) {
  await load();
  if (view === "pending") {
    await queue.load();
    return showPane(openedId());
  }
  const mine = ++loads, searched = parts.views.searches(view);
  if (!byId("find").childElementCount && searched) byId("find").append(parts.views.findForm(view, go));
  const answer = await api(searched ? `${view}?${parts.views.queryOf(parts.views.asked(), after)}` : view);
  if (mine !== loads || view === "pending") return; // a newer load, or another view, replaced this one
  if (answer.status === 403 || answer.status === 422) {
    list.replaceChildren(parts.cards.nothing("Not shown", answer.value.detail));
    return;
  }
  if (!answer.ok) throw new Error(answer.value.detail);
  SHOWS[view](answer.value, after);
  next = answer.value.next ?? null;
  more.hidden = !next;
  looked.textContent = searched ? parts.views.tellFound(list.querySelectorAll(".card, tbody tr").length, answer.value) : "";
}

const changed = gather(async (all) => {
  try {
    if (view === "pending") await changedHere(all);
    else if (view === "final" && !Object.keys(parts.views.asked()).length) {
      for (const [id] of all.slice(-FLOOD)) await parts.cards.read(id, () => view === "final");
    }
  } finally {
    queue.count(await recount());
  }
});

async function changedHere(all) {
  if (all.length > FLOOD) await queue.load();
  for (const [id] of all) {
    if (id === shown) await parts.cards.read(id);
    else if (all.length <= FLOOD) await queue.read(id);
  }
  if (!shown && wide.matches) await showPane(openedId());
}

function connection(up, why) {
  online = up;
  connect(up, why);
  parts?.cards.setOnline(up);
}

// ------------------------------------------------------------------ the page itself

// Only admins have the form. It is outside the list, because the list is redrawn while they type.
function hand() {
  const byHand = byId("by-hand");
  byHand.hidden = !me.admin || view !== "grants";
  if (me.admin && parts && !byHand.firstChild) byHand.append(parts.views.handForm(me, say));
  if (!me.admin) byHand.replaceChildren();
}

for (const [name, otherwise] of [["sound", "off"], ["notify", "off"], ["keys", "on"]]) {
  const box = byId(name);
  box.checked = chosen(name, otherwise);
  box.addEventListener("change", async () => {
    if (name === "notify" && box.checked && (await Notification.requestPermission()) !== "granted") {
      box.checked = false;
      say("This browser does not allow notifications here.");
    }
    localStorage.setItem(name, box.checked ? "on" : "off");
  });
}
if (!("Notification" in window)) byId("notify").disabled = true;

more.addEventListener("click", () => refresh(next).catch(() => connection(false)));
byId("signout").addEventListener("click", async () => {
  await api("logout", {}).catch(() => null);
  location.replace("/inbox/login#signed-out");
});
setInterval(() => tickAll(document), 1000);
// A notice at the top moves the page, so taps are ignored for a moment.
new ResizeObserver(() => { settle(list); settle(byId("rows")); }).observe(byId("top"));
queue.listenToSides(() => connection(false));

document.body.dataset.view = view;
document.body.classList.toggle("opened", Boolean(openedId()));
// The first view does not wait for the stream. Decisions are disabled until it is connected.
const sight = queue.load().catch(() => null);
sight.then(load).then(route).catch(() => null);
worker();
follow({
  ready: async () => {
    await sight;
    me = await signIn();
    await load();
    parts.cards.tellCards({ facts: me });
    tabs.find((tab) => tab.dataset.view === "audit").hidden = !me.admin && !me.auditor;
    parts.news.standing(me);
    hand();
    import("./subscription.js").then(({ renew }) => renew(me)).catch(() => null);
    await refresh();
    queue.count(await recount());
    byId("who").textContent = me.name;
  },
  changed,
  news: (what) => {
    if (view === "grants" && what.grant) again();
    parts.news.news(what, say, () => go("/inbox?view=grants"));
  },
  state: connection,
});
