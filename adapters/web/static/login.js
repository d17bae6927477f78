// The code travels in the fragment, so no server log and no link preview ever sees it, and it is
// used only when a person presses the button.
import { whereTo } from "./api.js";

const says = document.getElementById("says");
const form = document.getElementById("login");
const given = new URLSearchParams(location.hash.slice(1));
const code = given.get("code");
history.replaceState(null, "", location.pathname);
// A new link opened where this page is shown already changes the fragment, and loads nothing.
addEventListener("hashchange", () => location.reload());

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch("/inbox/api/login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
  }).catch(() => null);
  if (answer?.ok) {
    location.replace(whereTo());
    return;
  }
  const problem = answer ? await answer.json() : null;
  says.textContent = problem?.detail ?? "The gateway does not answer. Try again.";
  says.classList.add("problem");
  if (problem?.code === "unauthorized") askForAnother();
});

if (code) {
  // Until here a press would have left the page without the code.
  document.querySelector("button").disabled = false;
} else {
  says.textContent = given.has("signed-out") ? "You are signed out." : "You are not signed in.";
  askForAnother();
}

function askForAnother() {
  form.remove();
  document.getElementById("how").hidden = false;
}
