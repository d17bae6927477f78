/** The digest that binds an answer to what would run, and the signature over the answer. */

import { canonical } from "./canonical.js";
import type { Call, Decision } from "./messages.js";

const encoder = new TextEncoder();

/** Members that are left out of what the digest covers when they have this value. */
const DEFAULTS: Record<string, unknown> = { kind: "text", required: true, secret: false, label: "" };

/** Return the SHA-256 over everything that would run and for whom, as 64 hex digits. */
export async function digestOf(agent: string, call: Call, edited = call.arguments): Promise<string> {
  const covered = {
    v: 1,
    agent,
    kind: call.kind ?? "tool",
    tool: call.tool,
    arguments: edited,
    payload: call.payload ?? null,
    context: without(call.context ?? {}, isEmpty),
    questions: (call.questions ?? []).map((question) => ({
      ...without(question, isDefault),
      ...(question.options?.length ? { options: question.options.map((one) => without(one, isDefault)) } : {}),
    })),
  };
  const bytes = await crypto.subtle.digest("SHA-256", encoder.encode(canonical(covered)));
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Tell whether the gateway's key, base64 of its 32 bytes, or one of several with commas, signed exactly this decision. */
export async function isSigned(decision: Decision, publicKey: string): Promise<boolean> {
  const checks = publicKey.split(",").map((one) => isSignedBy(decision, one.trim()));
  return (await Promise.all(checks)).includes(true);
}

async function isSignedBy(decision: Decision, publicKey: string): Promise<boolean> {
  const { signature, ...signed } = decision as Decision & { signature?: string };
  if (typeof signature !== "string") return false;
  try {
    const key = await crypto.subtle.importKey("raw", decode(publicKey), "Ed25519", false, ["verify"]);
    return await crypto.subtle.verify("Ed25519", key, decode(signature), encoder.encode(canonical(signed)));
  } catch {
    return false;
  }
}

function without(value: object, gone: (name: string, one: unknown) => boolean): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([name, one]) => !gone(name, one)));
}

function isEmpty(_name: string, value: unknown): boolean {
  return value == null || (typeof value === "object" && !Object.keys(value).length);
}

function isDefault(name: string, value: unknown): boolean {
  return value === undefined || value === DEFAULTS[name] || (name === "options" && Array.isArray(value) && !value.length);
}

function decode(base64: string): Uint8Array<ArrayBuffer> {
  const raw = atob(base64);
  return Uint8Array.from(raw, (one) => one.charCodeAt(0));
}
