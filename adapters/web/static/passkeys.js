// Passkeys: what the browser makes of the gateway's options, as JSON both ways.
const CHOICES = { NotAllowedError: "It was not done: cancelled, or it took too long.", InvalidStateError: "This device has a passkey of yours already." };

async function ask(method, options, parse) {
  if (!globalThis.PublicKeyCredential?.[parse]) return { problem: "This browser is too old for passkeys, or the page has no HTTPS." };
  try {
    const made = await navigator.credentials[method]({ publicKey: PublicKeyCredential[parse](options) });
    return { credential: made.toJSON() };
  } catch (error) {
    return { problem: CHOICES[error.name] ?? "This browser refused: the address may not be the one that the gateway knows." };
  }
}

export const create = (options) => ask("create", options, "parseCreationOptionsFromJSON");
export const sign = (options) => ask("get", options, "parseRequestOptionsFromJSON");
