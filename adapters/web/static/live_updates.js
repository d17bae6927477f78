// Live updates: the event stream, the count of pending requests, and the sound and notifications.
import { api, signedOut } from "./api.js";
import { say } from "./dom.js";

// ------------------------------------------------------------------ the stream

// The stream reports changes. Its beats show that silence means no change.
const MISSED_BEATS = 2.5;
const SLOWEST_SECONDS = 15;

// `state(up, why)` is called when the connection comes or goes. `ready` is called just before it
// comes, to read everything again, so that no change is missed.
export async function follow({ ready, changed, state, news = () => {} }) {
  for (let pause = 0.5; ; pause = Math.min(pause * 2, SLOWEST_SECONDS)) {
    const why = await once(ready, () => { state(true); pause = 0.5; }, changed, news).catch(() => "");
    state(false, why);
    await rest(pause);
  }
}

async function once(ready, up, changed, news) {
  const stop = new AbortController();
  let heard = Date.now(), patience = 30000;
  // A connection that died silently, as after sleep or in a tunnel, looks like a quiet one.
  const watchdog = setInterval(() => { if (Date.now() - heard > patience) stop.abort(); }, 1000);
  const wake = () => { if (!document.hidden && Date.now() - heard > patience) stop.abort(); };
  document.addEventListener("visibilitychange", wake);
  // The browser reports a lost network at once; the connection would only become silent.
  const cut = () => stop.abort();
  addEventListener("offline", cut);
  try {
    const answer = await fetch("/inbox/api/changes", { signal: stop.signal });
    if (answer.status === 401) await signedOut();
    if (!answer.ok) return (await answer.json()).detail;
    for await (const { name, data } of messages(answer.body)) {
      heard = Date.now();
      if (name === "ready") {
        patience = data.beat * 1000 * MISSED_BEATS;
        await ready();
        stop.signal.throwIfAborted(); // the data may already be out of date
        up();
        heard = Date.now();
      } else if (name === "changed") changed(data.id, data.type);
      else if (name === "news") news(data);
    }
    return "";
  } finally {
    clearInterval(watchdog);
    document.removeEventListener("visibilitychange", wake);
    removeEventListener("offline", cut);
    stop.abort();
  }
}

// Show on a page that it is not connected, so that decisions are disabled.
export function connect(up, why) {
  const offline = document.getElementById("offline");
  offline.hidden = up;
  const because = why ? `: ${why}` : "";
  if (!up) offline.textContent = `Not connected${because}. This page may be out of date. You can decide again once the page is connected.`;
}

async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(part);
      yield { name, data: JSON.parse(data) };
    }
  }
}

function rest(seconds) {
  return new Promise((done) => {
    const timer = setTimeout(done, seconds * 1000);
    addEventListener("online", () => { clearTimeout(timer); done(); }, { once: true });
  });
}

// Gathers changes: handles the first at once, and those that come meanwhile together a moment later.
const CALM_MS = 1000;
const SHARE = 10; // the work takes at most about a tenth of the time

export function gather(work) {
  const changes = new Map();
  let busy = false;
  async function drain() {
    busy = true;
    while (changes.size) {
      const all = [...changes], began = performance.now();
      changes.clear();
      try {
        await work(all);
      } catch {
        break; // the stream fails too, and then reads everything again
      }
      const took = performance.now() - began;
      await new Promise((done) => setTimeout(done, Math.max(CALM_MS, SHARE * took)));
    }
    busy = false;
  }
  return (id, type) => {
    changes.set(id, changes.get(id) === "submitted" ? "submitted" : type);
    if (!busy) drain();
  };
}

// ------------------------------------------------------------------ the count

// Every page shows the count of pending requests in its title, and calls when it grows.
const own = document.title;
let known = null; // the time of the newest request that this page knows

export function show({ mine, more, newest }) {
  known ??= newest;
  const text = mine ? `${mine}${more ? "+" : ""}` : "";
  document.title = text ? `(${text}) ${own}` : own;
  const badge = document.getElementById("count");
  if (badge) badge.replaceChildren(...(text ? [text, Object.assign(document.createElement("span"), { className: "unseen", textContent: " for you" })] : []));
}

// Count again. Requests that came since the page was opened ring.
export async function recount() {
  const began = known;
  const answer = await api(`queue/counts?since=${began ?? 0}`);
  if (!answer.ok) throw new Error(answer.value.detail);
  const { fresh, newest } = answer.value;
  show(answer.value);
  known = Math.max(known, newest);
  if (began !== null && fresh) tell(fresh);
  return answer.value;
}

function tell(fresh) {
  const text = fresh === 1 ? "A new request arrived." : `${fresh} new requests arrived.`;
  say(text);
  try {
    ring(text);
  } catch (error) {
    console.warn(error); // a browser may refuse these extras; the request is listed anyway
  }
}

// ------------------------------------------------------------------ calls

// Sound and notifications call people back to the page. Both are off by default. Notifications need the service worker, because
// phones refuse those that a page makes itself.
export const chosen = (name, otherwise = "off") => (localStorage.getItem(name) ?? otherwise) === "on";

const SCOPE = "/inbox";

// The worker's registration; null if the browser has none, as without TLS or in a private window.
export async function worker() {
  try {
    return await navigator.serviceWorker.register("/inbox/sw.js", { scope: SCOPE });
  } catch {
    return null;
  }
}

function ring(text) {
  if (chosen("sound")) beep();
  if (chosen("notify") && document.hidden && Notification.permission === "granted") notify(text).catch(() => null);
}

// A lock screen shows it to anyone, so it has no arguments and no names. A device with pushes needs none.
async function notify(text) {
  const registration = await navigator.serviceWorker.getRegistration(SCOPE);
  if (await registration.pushManager.getSubscription()) return;
  await registration.showNotification("Approval needed", { body: text, tag: "approval", icon: "/inbox/static/icon-192.png", data: {} });
}

function beep() {
  const audio = new AudioContext();
  const tone = audio.createOscillator();
  tone.connect(audio.destination);
  tone.start();
  tone.stop(audio.currentTime + 0.12);
  tone.onended = () => audio.close();
}
