/** One HTTP call to the gateway, and what its refusals mean. */

/** The gateway did not answer, or something that is not the gateway did. Nothing was approved. */
export class Unreachable extends Error {
  override name = "Unreachable";
}

/** The gateway refused a call. Go by `code`; `status` is that of HTTP. */
export class Refused extends Error {
  override name = "Refused";
  constructor(readonly status: number, readonly code: string, detail: string, readonly retryAfter: number) {
    super(detail);
  }
}

/** What the gateway answered, and when by its own clock, in ms. */
export interface Answer<T> {
  body: T;
  now: number;
}

const SECOND = 1000;
const SLACK_SECONDS = 10;

/** Calls one gateway with one token. */
export class Http {
  readonly #url: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;

  constructor(url: string, token: string, call: typeof fetch) {
    this.#url = url.replace(/\/+$/, "");
    this.#token = token;
    this.#fetch = call;
  }

  /** Call, and wait `seconds` for the answer. Throws Unreachable and Refused. */
  async call<T>(method: string, path: string, body?: unknown, seconds = SLACK_SECONDS, signal?: AbortSignal): Promise<Answer<T>> {
    const limit = AbortSignal.timeout(Math.ceil((seconds + SLACK_SECONDS) * SECOND));
    const headers: Record<string, string> = { Authorization: `Bearer ${this.#token}` };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response: Response, text: string;
    try {
      response = await this.#fetch(this.#url + path, {
        method, headers, redirect: "error", signal: signal ? AbortSignal.any([limit, signal]) : limit,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      text = await response.text();
    } catch (error) {
      signal?.throwIfAborted();
      throw new Unreachable(`the gateway does not respond: ${String(error)}`);
    }
    const told = parse(text);
    if (response.ok) return { body: told as T, now: Date.parse(response.headers.get("date") ?? "") || Date.now() };
    const { code, detail } = told as { code?: string; detail?: string };
    if (response.status >= 500 || typeof code !== "string") throw new Unreachable(`the gateway answered ${response.status}`);
    throw new Refused(response.status, code, detail ?? code, Number(response.headers.get("retry-after")) || 1);
  }
}

function parse(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // told below
  }
  throw new Unreachable("something answered that is not the gateway");
}
