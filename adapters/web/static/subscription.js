// This browser's push subscription, and its registration at the gateway.
import { api } from "./api.js";
import { worker } from "./live_updates.js";

// Why this browser cannot get pushes; "" if it can.
export function lacking() {
  if (!isSecureContext) return "Notifications need HTTPS: open the inbox by an address that begins with https.";
  if (!("serviceWorker" in navigator)) return "This browser has no service workers, or this window is private.";
  if ("PushManager" in window && "Notification" in window) return "";
  return /iPhone|iPad/.test(navigator.userAgent)
    ? "First add this page to the home screen (Share, then Add to Home Screen), and open the inbox from there."
    : "This browser does not support push notifications.";
}

export async function current() {
  return lacking() ? null : (await worker())?.pushManager.getSubscription() ?? null;
}

// Ask for permission and subscribe. Return "", or the problem in a sentence.
export async function turnOn(key, csrf) {
  if ((await Notification.requestPermission()) !== "granted") return "This browser does not allow notifications here: allow them in the browser's settings for this page.";
  const registration = await worker();
  if (!registration) return "The inbox's service worker could not be started.";
  const old = await registration.pushManager.getSubscription();
  if (old && !isFor(old, key)) await old.unsubscribe();
  const made = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  return hand(made, csrf);
}

export async function turnOff(id) {
  if (id) await api(`push/devices/${id}/remove`, {});
  await (await current())?.unsubscribe();
}

// Register this device again after a new sign-in, or if the gateway has a new key. If it is missing in the same session, somebody
// removed it on purpose, so unsubscribe.
export async function renew({ csrf }) {
  const subscription = await current();
  if (!subscription || Notification.permission !== "granted") return;
  const { ok, value } = await api("push");
  if (!ok || !value.key) return;
  if (!isFor(subscription, value.key)) await turnOn(value.key, csrf);
  else if (value.devices.some((one) => one.here)) return;
  else if (localStorage.getItem(HANDED) === mark(csrf)) await subscription.unsubscribe();
  else await hand(subscription, csrf);
}

async function hand(subscription, csrf) {
  const answer = await api("push/subscribe", { subscription: subscription.toJSON() });
  if (answer.ok) localStorage.setItem(HANDED, mark(csrf));
  return answer.ok ? "" : answer.value.detail;
}

// Identifies the session, but gives no access.
const HANDED = "pushed-in", mark = (csrf) => csrf.slice(0, 8);

function isFor(subscription, key) {
  const bytes = new Uint8Array(subscription.options?.applicationServerKey ?? []);
  const text = btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return text === key;
}
