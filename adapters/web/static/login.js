// The code is in the fragment, so no server log and no link preview ever sees it. It is used only
// when a person presses the button, which says whom it signs in.
import { whereTo } from "./api.js";
import { sign } from "./passkeys.js";

const says = document.getElementById("says");
const form = document.getElementById("login"), button = form.querySelector("button"), paste = document.getElementById("paste");
const passkey = document.getElementById("passkey"), provider = document.getElementById("provider");
let given = new URLSearchParams(location.hash.slice(1)), code = given.get("code");
history.replaceState(null, "", location.pathname);
// If this page is already open, a new link only changes the fragment, so reload.
addEventListener("hashchange", () => location.reload());

async function send(path, body = { code }) {
  const answer = await fetch(`/inbox/api/${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  }).catch(() => null);
  if (answer?.ok) return answer.json();
  const problem = answer ? await answer.json() : null;
  complain(problem?.detail ?? "The gateway does not answer. Try again.");
  if (problem?.code === "unauthorized") askForAnother();
  return null;
}

function complain(text) {
  says.textContent = text[0].toUpperCase() + text.slice(1);
  says.classList.add("problem");
}

let whose = null;

// Says whom the link signs in. If the gateway does not respond, the button asks again.
async function ask() {
  whose = await send("login/whose");
  if (whose) {
    document.getElementById("how").hidden = true;
    says.classList.remove("problem");
    says.textContent = whose.now && whose.now !== whose.name
      ? `This link signs in ${whose.name}. In this browser you are now ${whose.now}. Press only if you asked for this link.`
      : `This link signs in ${whose.name}, once, on this device. Press only if you asked for this link.`;
  }
  button.textContent = whose ? `Sign in as ${whose.name}` : "Try again";
  button.disabled = false; // an earlier press would have lost the code
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!whose) await ask();
  else if (await send("login")) location.replace(whereTo(given.get("to")));
});

if (code) await ask();
else {
  says.textContent = given.has("signed-out") ? "You are signed out." : "You are not signed in.";
  askForAnother();
}

// Without a link, show the other ways to sign in.
async function askForAnother() {
  code = null;
  form.hidden = true;
  paste.hidden = false;
  document.getElementById("how").hidden = false;
  const answer = await fetch("/inbox/api/login/ways").catch(() => null);
  const ways = answer?.ok ? await answer.json() : {};
  passkey.hidden = !ways.passkeys;
  provider.hidden = !ways.provider;
  provider.textContent = `Sign in with ${ways.provider}`;
}

// An installed app opens no links, so people paste them. Only the code is used, so no pasted address can lead away.
paste.addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("link"), text = field.value.trim();
  given = new URLSearchParams(text.slice(text.indexOf("#") + 1));
  code = given.get("code") ?? text;
  field.value = "";
  paste.hidden = true;
  form.hidden = false;
  ask();
});

provider.addEventListener("click", async () => {
  says.classList.remove("problem");
  const there = await send("login/provider", {});
  if (there) location.assign(there.page);
});

passkey.addEventListener("click", async () => {
  says.classList.remove("problem");
  const options = await send("login/passkey/options", {});
  if (!options) return;
  const { credential, problem } = await sign(options);
  if (problem) complain(problem);
  else if (await send("login/passkey", { credential })) location.replace(whereTo());
});
