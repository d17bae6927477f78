// The page after the identity provider: posts the provider's answer to the gateway, and removes it
// from the address at once.
import { whereTo } from "./api.js";

const given = new URLSearchParams(location.search), says = document.getElementById("says");
history.replaceState(null, "", location.pathname);
const came = {};
for (const name of ["code", "state", "iss", "error"]) if (given.has(name)) came[name] = given.get(name);

const answer = await fetch("/inbox/api/login/provider/finish", {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(came),
}).catch(() => null);
if (answer?.ok) location.replace(whereTo());
else {
  const problem = answer ? await answer.json() : null;
  says.textContent = problem ? `You were not signed in: ${problem.detail}.` : "The gateway does not answer.";
  says.classList.add("problem");
  document.getElementById("how").hidden = false;
}
