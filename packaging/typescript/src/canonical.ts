/** JSON as RFC 8785 writes it, so that a value has the same bytes, and digest, in every language. */

/** A value that JSON can carry. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** The value cannot be written so that every JSON library reads the same. */
export class NotJson extends Error {
  override name = "NotJson";
}

/**
 * Return the canonical text of a value. Members that are `undefined` are left out, as JSON does.
 *
 * Throws NotJson for NaN and infinities, integers beyond 2^53 - 1 (send them as strings), lone
 * surrogates, NUL characters, and what is no JSON value.
 */
export function canonical(value: unknown): string {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") return numeral(value);
  if (typeof value === "string") return text(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object") return members(value as Record<string, unknown>);
  throw new NotJson(`${typeof value} is no JSON value`);
}

function numeral(value: number): string {
  if (!Number.isFinite(value)) throw new NotJson("NaN and infinities are no JSON");
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21) {
    throw new NotJson("an integer is beyond 2^53 - 1; send it as a string");
  }
  return JSON.stringify(value);
}

function text(value: string): string {
  if (!value.isWellFormed()) throw new NotJson("a text holds half of a surrogate pair");
  if (value.includes("\0")) throw new NotJson("a text holds a NUL character");
  return JSON.stringify(value);
}

// JavaScript compares texts by their UTF-16 code units, as the standard wants it.
function members(value: Record<string, unknown>): string {
  const names = Object.keys(value).filter((name) => value[name] !== undefined).sort();
  return `{${names.map((name) => `${text(name)}:${canonical(value[name])}`).join(",")}}`;
}
