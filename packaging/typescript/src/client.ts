/** Ask a person before something runs, wait, and run exactly what was approved, once. */

import { digestOf, isSigned } from "./digest.js";
import { Http, Refused, Unreachable } from "./http.js";
import type { ApprovalRequest, Call, Decision, Execution, State } from "./messages.js";

const POLL_SECONDS = 25;
const CONNECT_SECONDS = 30;
const LONGEST_PAUSE_MS = 5000;
const FIRST_PAUSE_MS = 100;
const NO_DEADLINE_MS = 30 * 24 * 3600 * 1000;

/** The gateway's answer is not for what was asked, or not signed by the pinned key. */
export class Unverified extends Error {
  override name = "Unverified";
}

/** The request ended without an approval; `outcome` says how. */
export class NotApproved extends Error {
  override name = "NotApproved";
  constructor(readonly outcome: Outcome) {
    super(outcome.reason);
  }
}

/** Where the gateway is, and who asks. `publicKey` pins the gateway's key: nothing else is believed. */
export interface Options {
  url: string;
  token: string;
  agent: string;
  publicKey?: string | undefined;
  /** Told what waits, and where to answer it, for people who look at the agent. */
  say?: ((text: string) => void) | undefined;
  fetch?: typeof fetch | undefined;
}

/** How a request ended. Where `runs`, the `arguments` may run once, until `expired()`. */
export interface Outcome {
  id: string;
  runs: boolean;
  status: Decision["status"];
  /** Who or what ended it, and why, in words for the agent. */
  reason: string;
  arguments: Call["arguments"];
  decision: Decision;
  /** Another process had this approval before: the action may have run already. */
  mayHaveRun: boolean;
  expired(): boolean;
}

/** An agent's side of one gateway. One per process: it is this process that approvals are given to. */
export class Client {
  readonly #http: Http;
  readonly #options: Options;
  readonly #process = hex(16);

  constructor(options: Options) {
    this.#options = options;
    this.#http = new Http(options.url, options.token, options.fetch ?? fetch);
  }

  /**
   * Ask, and wait for the end. Every end is an outcome; Unreachable, Refused and Unverified are
   * thrown, and mean that nothing was approved. An aborted call is withdrawn, and so is one that is
   * given up.
   */
  async ask(call: Call, more: { signal?: AbortSignal; id?: string } = {}): Promise<Outcome> {
    const { agent, say } = this.#options;
    const request: ApprovalRequest = { ...call, id: more.id ?? hex(16), agent, digest: await digestOf(agent, call) };
    try {
      let { state, until } = await this.#submit(request, more.signal);
      if (state.status === "pending") {
        say?.(`waiting for approval of ${call.tool}: answer at ${this.#options.url.replace(/\/+$/, "")}/inbox/r/${request.id}`);
        if (state.number) say?.(`whoever approves may have to type the number ${state.number}`);
        state = await this.#wait(request.id, until, more.signal);
      }
      if (state.status === "approved" && !state.decision) state = await this.#consume(request.id);
      return await this.#check(request, call, state, until);
    } catch (error) {
      if (!(error instanceof Refused)) await this.cancel(request.id).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Ask, and run what was approved: `run` gets the approved arguments, which people may have
   * changed. What became of it is reported. Throws NotApproved when nothing may run.
   */
  async gate<T>(call: Call, run: (args: Call["arguments"]) => Promise<T> | T, more: { signal?: AbortSignal } = {}): Promise<T> {
    const outcome = await this.ask(call, more);
    if (!outcome.runs || outcome.mayHaveRun) throw new NotApproved(outcome);
    if (outcome.expired()) {
      await this.report(outcome.id, "refused_late").catch(() => undefined);
      throw new Unverified("the approval came too late");
    }
    await this.report(outcome.id, "started").catch(() => undefined);
    const began = performance.now();
    const ended = (execution: Execution, detail = "") =>
      this.report(outcome.id, execution, Math.round(performance.now() - began), detail).catch(() => undefined);
    try {
      const value = await run(outcome.arguments);
      await ended("succeeded");
      return value;
    } catch (error) {
      await ended("failed", String(error).slice(0, 200));
      throw error;
    }
  }

  /** Withdraw a request; one that has ended must stay the same. */
  async cancel(id: string): Promise<State> {
    const body = { reason: "abandoned", message: "the agent waits no longer" };
    return (await this.#http.call<State>("POST", `/v1/requests/${id}/cancel`, body)).body;
  }

  /** Say what became of an approved action. */
  async report(id: string, execution: Execution, durationMs?: number, detail = ""): Promise<void> {
    const report = { execution, detail, ...(durationMs === undefined ? {} : { duration_ms: durationMs }) };
    await this.#http.call("POST", `/v1/requests/${id}/report`, { report });
  }

  // Submitting is the same call each time, so it is repeated until the gateway answers.
  async #submit(request: ApprovalRequest, signal?: AbortSignal): Promise<{ state: State; until: number }> {
    const began = performance.now();
    const body = { request, process: this.#process };
    return repeat(began + CONNECT_SECONDS * 1000, signal, async () => {
      const { body: state, now } = await this.#http.call<State>("POST", "/v1/requests", body, CONNECT_SECONDS, signal);
      // By the gateway's clock, so that ours may be wrong.
      return { state, until: performance.now() + Math.min(state.deadline - now, NO_DEADLINE_MS) };
    });
  }

  // At the deadline the request is withdrawn, and the gateway says how it stands: as a rule, expired.
  async #wait(id: string, until: number, signal?: AbortSignal): Promise<State> {
    for (;;) {
      const left = (until - performance.now()) / 1000;
      if (left <= 0) return repeat(until + CONNECT_SECONDS * 1000, signal, () => this.cancel(id));
      const seconds = Math.min(POLL_SECONDS, left);
      const path = `/v1/requests/${id}?process=${this.#process}&wait=${seconds.toFixed(3)}`;
      const call = () => this.#http.call<State>("GET", path, undefined, seconds, signal);
      const { body } = await repeat(until, signal, call);
      if (body.status !== "pending") return body;
    }
  }

  async #consume(id: string): Promise<State> {
    return (await this.#http.call<State>("POST", `/v1/requests/${id}/consume`, { process: this.#process })).body;
  }

  // Nothing in an answer is used before all of this holds.
  async #check(request: ApprovalRequest, call: Call, state: State, until: number): Promise<Outcome> {
    const { decision } = state;
    if (!decision || state.id !== request.id || decision.request_id !== request.id || decision.status !== state.status) {
      throw new Unverified("the gateway answered something else than was asked");
    }
    const runs = state.status === "approved" && (decision.action === "approve" || decision.action === "edit");
    if (state.status === "approved") await this.#checkApproval(request, call, decision);
    return {
      id: request.id,
      runs,
      status: decision.status,
      reason: reasonOf(decision),
      arguments: decision.arguments ?? call.arguments,
      decision,
      mayHaveRun: state.may_have_run ?? false,
      expired: () => performance.now() > until,
    };
  }

  async #checkApproval(request: ApprovalRequest, call: Call, decision: Decision): Promise<void> {
    const { publicKey, agent } = this.#options;
    if (publicKey && !(await isSigned(decision, publicKey))) throw new Unverified("the decision is not signed by the pinned key");
    const allowed: readonly string[] = call.allowed ?? ["approve", "deny"];
    if (!decision.action || !allowed.includes(decision.action)) throw new Unverified(`${decision.action} is not what was asked for`);
    if (decision.arguments && decision.action !== "edit") throw new Unverified("the arguments were changed by a decision that is no edit");
    const expected = decision.arguments ? await digestOf(agent, call, decision.arguments) : request.digest;
    if (decision.digest !== expected) throw new Unverified("the decision is about something else than was asked");
  }
}

function reasonOf(decision: Decision): string {
  const { status, reason, decided_by: by, message } = decision;
  const who = reason === "person" || reason === "feedback" ? `${status} by ${by.name}` : `${status} (${reason})`;
  return message ? `${who}: ${message}` : who;
}

// Call until there is an answer, with growing pauses; the last error is thrown at `until`.
async function repeat<T>(until: number, signal: AbortSignal | undefined, call: () => Promise<T>): Promise<T> {
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    try {
      return await call();
    } catch (error) {
      const busy = error instanceof Refused && error.code === "too_many_requests";
      const wait = busy ? error.retryAfter * 1000 : pause * (0.5 + Math.random() / 2);
      if (!(error instanceof Unreachable || busy) || performance.now() + wait > until) throw error;
      await sleep(wait, signal);
    }
  }
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => { clearTimeout(timer); reject(signal?.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", stop); resolve(); }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

function hex(bytes: number): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (one) => one.toString(16).padStart(2, "0")).join("");
}
