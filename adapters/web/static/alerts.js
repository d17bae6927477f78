// What calls somebody back to the page. Both are off until they are chosen, on every page alike. Notifications go through the
// service worker: phones refuse those that a page makes itself.
export const chosen = (name, otherwise = "off") => (localStorage.getItem(name) ?? otherwise) === "on";

const SCOPE = "/inbox";

// The worker's registration, null where the browser has none: without TLS, or in a private window.
export async function worker() {
  try {
    return await navigator.serviceWorker.register("/inbox/sw.js", { scope: SCOPE });
  } catch {
    return null;
  }
}

export function ring(text) {
  if (chosen("sound")) beep();
  if (chosen("notify") && document.hidden && Notification.permission === "granted") notify(text).catch(() => null);
}

// A lock screen shows it to anyone: no arguments, no names. A device that gets pushes was told already.
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
