// Calls to the gateway. A signed-out person is sent to the sign-in page.
let csrf = "";

const NEXT = "after-sign-in", KEPT_MS = 3_600_000;
const ONE = /^\/inbox\/r\/[0-9a-f]{32}$/;

// The id of the request in the address; null for the whole inbox.
export const openedId = () => (ONE.test(location.pathname) ? location.pathname.slice(-32) : null);

export function signedOut() {
  // A sign-in link opens a new page; it then returns to this request.
  if (openedId()) localStorage.setItem(NEXT, JSON.stringify({ path: location.pathname, at: Date.now() }));
  location.replace("/inbox/login#signed-out");
  return new Promise(() => {}); // callers stop while the page leaves
}

// `text` is JSON that a person wrote; it is sent unchanged as "arguments". Parsing it here would turn
// 1249.0 into 1249, and round long numbers.
export async function api(path, body, text = null) {
  const options = body === undefined ? {} : {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
    body: text === null ? JSON.stringify(body) : `${JSON.stringify(body).slice(0, -1)}${Object.keys(body).length ? "," : ""}"arguments":${text}}`,
  };
  const answer = await fetch(`/inbox/api/${path}`, options);
  if (answer.status === 401) return signedOut();
  return { ok: answer.ok, status: answer.status, value: await answer.json(), at: Date.parse(answer.headers.get("Date")) };
}

// The path to open after sign-in: the request that the person opened within the last hour, or the inbox.
export function whereTo(to) {
  const { path, at } = to ? { path: `/inbox/r/${to}`, at: Date.now() } : JSON.parse(localStorage.getItem(NEXT) ?? "{}");
  localStorage.removeItem(NEXT);
  return ONE.test(path) && Date.now() - at < KEPT_MS ? path : "/inbox";
}

export async function signIn() {
  const answer = await api("me");
  csrf = answer.value.csrf;
  return answer.value;
}

// Unlike randomUUID, this works without TLS, as on a phone in the same network.
export function nonce() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
