// Passkeys: pass the gateway's options to the browser, and return its answer, both as JSON.
const CHOICES = { NotAllowedError: "You cancelled, or you took too long. Try again.", InvalidStateError: "You already have a passkey on this device." };

async function ask(method, options, parse) {
  if (!globalThis.PublicKeyCredential?.[parse]) return { problem: "This browser is too old for passkeys, or the page does not use HTTPS." };
  try {
    const made = await navigator.credentials[method]({ publicKey: PublicKeyCredential[parse](options) });
    return { credential: made.toJSON() };
  } catch (error) {
    return { problem: CHOICES[error.name] ?? "The browser refused the passkey. This page's address may differ from the one set in the gateway." };
  }
}

export const create = (options) => ask("create", options, "parseCreationOptionsFromJSON");
export const sign = (options) => ask("get", options, "parseRequestOptionsFromJSON");
