// The page Devices: a person's signed-in devices and passkeys, with buttons to end or remove them.
import { api, signIn } from "./api.js";
import { make } from "./dom.js";
import { clock, setClock } from "./time_left.js";
import { create } from "./passkeys.js";

const says = document.getElementById("says");
const rows = document.getElementById("sessions"), others = document.getElementById("others");
const WAYS = {
  link: "a one-time link", slack: "a link from Slack", discord: "a link from Discord",
  passkey: "a passkey", oidc: "your organisation",
};

function day(ms) {
  return new Date(ms).toLocaleDateString([], { day: "numeric", month: "short" });
}

function row(one) {
  const words = one.words || "An unknown browser";
  const text = one.current
    ? make("span", { class: "here" }, "This device")
    : make("span", { class: "quiet" }, `Last used ${clock(one.used)}`);
  return make("li", {},
    make("strong", {}, words),
    make("p", {}, text),
    make("p", { class: "quiet" }, `Signed in ${clock(one.made)} with ${WAYS[one.way] ?? one.way}. If you do not use it, it is signed out ${day(one.ends)}.`),
    one.current ? null : make("button", {
      type: "button", class: "strong", "aria-label": `Sign out ${words}, signed in ${clock(one.made)}`,
      onclick: () => end({ device: one.id }),
    }, "Sign out"));
}

async function end(what) {
  const answer = await api("devices/end", what).catch(() => null);
  const told = !answer ? "The gateway does not answer. Try again."
    : !answer.ok ? answer.value.detail
      : answer.value.ended === 1 ? "One device was signed out." : `${answer.value.ended} devices were signed out.`;
  await read();
  say(told, !answer?.ok);
}

function say(text, wrong = false, where = says) {
  where.textContent = text;
  where.classList.toggle("problem", wrong);
  where.classList.toggle("quiet", !wrong);
}

async function read() {
  const answer = await api("devices").catch(() => null);
  if (!answer?.ok) return say("The gateway does not answer. Load the page again.", true);
  setClock(answer.value.now);
  rows.replaceChildren(...answer.value.items.map(row));
  others.hidden = answer.value.items.length < 2;
  say("A device stays signed in for 30 days, or for 7 days if you do not use it.");
}

const keys = document.getElementById("passkeys"), keysSay = document.getElementById("passkeys-says"), add = document.getElementById("add");

function key(one) {
  const used = one.used ? `Last used ${clock(one.used)}` : "Not used yet";
  return make("li", {},
    make("strong", {}, `Made in ${one.words}`),
    make("p", { class: "quiet" }, `${clock(one.made)}. ${used}.`),
    make("button", {
      type: "button", class: "strong", "aria-label": `Remove the passkey made in ${one.words}, ${clock(one.made)}`,
      onclick: () => change(() => api("passkeys/remove", { id: one.id }), "The passkey was removed. Devices stay signed in."),
    }, "Remove"));
}

async function readKeys(told = "") {
  const answer = await api("passkeys").catch(() => null);
  if (!answer?.ok) return say("The gateway does not answer. Load the page again.", true, keysSay);
  const { items, problem, most } = answer.value;
  keys.replaceChildren(...items.map(key));
  add.hidden = Boolean(problem) || items.length >= most;
  say(told || problem || "Sign in with your finger, your face or a key, without a link.", false, keysSay);
}

async function change(work, done) {
  const answer = await work().catch(() => null);
  if (!answer) return say("The gateway does not answer. Try again.", true, keysSay);
  if (!answer.ok) return say(answer.value.detail, true, keysSay);
  await readKeys(done);
}

add.addEventListener("click", () => change(async () => {
  const options = await api("passkeys/options", {});
  if (!options.ok) return options;
  const { credential, problem } = await create(options.value);
  return problem ? { ok: false, value: { detail: problem } } : api("passkeys", { credential });
}, "The passkey was added."));

others.addEventListener("click", () => end({ others: true }));
document.getElementById("signout").addEventListener("click", async () => {
  const answer = await api("logout", {}).catch(() => null);
  if (answer?.ok) location.replace("/inbox/login#signed-out");
  else say("The gateway does not answer. You are still signed in.", true);
});

const me = await signIn().catch(() => null);
if (me) {
  document.getElementById("who").textContent = me.name;
  await read();
  await readKeys();
} else say("The gateway does not answer. Load the page again.", true);
