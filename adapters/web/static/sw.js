// The service worker: shows pushes, and sends decisions tapped there. It stores nothing and answers no fetch.
const API = "/inbox/api/", HOME = "/inbox";
const SAID = { approve: "Approve", deny: "Deny", open: "Open" };

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil(show(event.data.json())));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(answer(event.notification.data ?? {}, event.action));
});
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(subscribeAgain(event)));

// One notification for each request; a later push replaces it.
async function show(told) {
  const tag = told.id || "test", stood = await standing(tag);
  await self.registration.showNotification(told.title, {
    body: told.body, tag, silent: Boolean(told.ended), renotify: !told.ended,
    icon: "/inbox/static/icon-192.png", badge: "/inbox/static/badge.png", lang: "en", data: told,
    actions: told.actions.map((action) => ({ action, title: SAID[action] })),
  });
  // Show an outcome only in place of an earlier notification, and not while the inbox is visible.
  if (told.ended && (!stood.length || await looking())) for (const one of await standing(tag)) one.close();
}

const place = ({ id }) => (id ? `${HOME}/r/${id}` : HOME);
const standing = (tag) => self.registration.getNotifications({ tag });
const windows = () => self.clients.matchAll({ type: "window" });
const looking = async () => (await windows()).some((one) => one.visibilityState === "visible");

async function answer(told, action) {
  if (action !== "approve" && action !== "deny") return open(place(told));
  const failed = await decide(told, action).catch(() => "The gateway did not answer.");
  if (failed) await refused(told, failed);
}

async function decide({ id, revision, digest }, action) {
  const me = await fetch(`${API}me`);
  if (me.status === 401) return "You are signed out on this device.";
  const { csrf } = await me.json();
  const nonce = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const done = await send("push/decide", csrf, { id, revision, digest, action, nonce });
  return done.ok ? null : (await done.json()).detail;
}

function send(path, csrf, body) {
  return fetch(API + path, { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: JSON.stringify(body) });
}

// The person must learn that the tap had no effect.
function refused(told, why) {
  return self.registration.showNotification("Your decision was not recorded", {
    body: `${why} ${told.body ?? ""}`, tag: told.id, renotify: true, icon: "/inbox/static/icon-192.png",
    badge: "/inbox/static/badge.png", lang: "en", data: { id: told.id }, actions: [{ action: "open", title: SAID.open }],
  });
}

async function open(url) {
  const there = (await windows()).find((one) => new URL(one.url).pathname === url);
  return there ? there.focus() : self.clients.openWindow(url);
}

// The browser changed the subscription's address, so send it to the gateway.
async function subscribeAgain() {
  const { csrf } = await (await fetch(`${API}me`)).json();
  const { key } = await (await fetch(`${API}push`)).json();
  const made = await self.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  await send("push/subscribe", csrf, { subscription: made.toJSON() });
}
