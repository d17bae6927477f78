// The code travels in the fragment, so no server log and no link preview ever sees it, and it is
// used only when a person presses the button.
const says = document.getElementById("says");
const code = new URLSearchParams(location.hash.slice(1)).get("code");
history.replaceState(null, "", location.pathname);

document.getElementById("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch("/inbox/api/login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code: code ?? "" }),
  }).catch(() => null);
  if (answer?.ok) {
    location.replace("/inbox");
    return;
  }
  const problem = answer ? await answer.json() : null;
  says.textContent = problem?.detail ?? "The gateway does not answer. Try again.";
  says.classList.add("bad");
});

// Until here a press would have left the page without the code.
document.querySelector("button").disabled = false;
