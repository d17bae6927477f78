// The client against a real gateway, whose people a test answers for.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { Client, NotApproved, Refused, Unreachable, Unverified } from "../dist/index.js";

const { GATEWAY_URL: url, GATEWAY_TOKEN: token, GATEWAY_PUBLIC_KEY: publicKey, APPROVER_TOKEN: approver } = process.env;
const said = [];
const client = new Client({ url, token, agent: "agent1", publicKey, say: (text) => said.push(text) });
let number = 0;
const call = (more = {}) => ({ tool: "delete_branch", arguments: { name: `old-${number += 1}` }, session: "ts", ...more });

async function decide(action, more = {}, wanted = () => true) {
  const headers = { Authorization: `Bearer ${approver}`, "Content-Type": "application/json" };
  for (;;) {
    const { items } = await (await fetch(`${url}/v1/requests`, { headers })).json();
    const found = items.find((one) => one.request.session === "ts" && wanted(one.request));
    if (!found) continue;
    const body = JSON.stringify({ action, revision: found.revision, ...more });
    const answer = await fetch(`${url}/v1/requests/${found.request.id}/decide`, { method: "POST", headers, body });
    assert.equal(answer.status, 200, await answer.text());
    return found.request;
  }
}

async function record(id) {
  const answer = await fetch(`${url}/v1/requests/${id}?record=true`, { headers: { Authorization: `Bearer ${token}` } });
  return answer.json();
}

test("an approved call runs once, with what was approved, and is reported", async () => {
  const asked = call();
  const ran = [];
  const [value, request] = await Promise.all([client.gate(asked, (args) => { ran.push(args); return "done"; }), decide("approve")]);
  assert.equal(value, "done");
  assert.deepEqual(ran, [asked.arguments]);
  assert.equal((await record(request.id)).record.report.execution, "succeeded");
  assert.match(said.at(-1), new RegExp(`${request.id}$`));
});

test("a failing call is reported as failed, and its error is the caller's", async () => {
  const broken = client.gate(call(), () => { throw new Error("it is broken"); });
  const [, request] = await Promise.all([assert.rejects(broken, /it is broken/), decide("approve")]);
  const { execution, detail } = (await record(request.id)).record.report;
  assert.equal(execution, "failed");
  assert.match(detail, /it is broken/);
});

test("a denied call does not run, and says who denied it and why", async () => {
  const denied = client.gate(call(), () => assert.fail("it ran"));
  const [error] = await Promise.all([denied.catch((one) => one), decide("deny", { message: "not now" })]);
  assert.ok(error instanceof NotApproved);
  assert.equal(error.outcome.status, "denied");
  assert.equal(error.message, "denied by ann: not now");
});

test("an edit runs instead, and an edit that was not allowed is refused by the gateway", async () => {
  const ran = [];
  const asked = call({ allowed: ["approve", "edit", "deny"] });
  await Promise.all([client.gate(asked, (args) => ran.push(args)), decide("edit", { arguments: { name: "other" } })]);
  assert.deepEqual(ran, [{ name: "other" }]);
});

test("nobody answers: it is expired, and no denial", async () => {
  const outcome = await client.ask(call({ timeout: 0.5 }));
  assert.equal(outcome.runs, false);
  assert.equal(outcome.status, "expired");
  assert.doesNotMatch(outcome.reason, /denied/);
});

test("what is aborted is withdrawn", async () => {
  const stop = new AbortController();
  const asked = call();
  const ended = client.ask(asked, { signal: stop.signal, id: "ab".repeat(16) }).catch((one) => one);
  while (!said.at(-1)?.endsWith("ab".repeat(16))) await new Promise(setImmediate);
  stop.abort(new Error("stopped"));
  assert.equal((await ended).message, "stopped");
  assert.equal((await record("ab".repeat(16))).status, "cancelled");
});

test("the same id is asked once; other content under it is refused", async () => {
  const asked = call();
  const both = Promise.all([client.ask(asked, { id: "cd".repeat(16) }), client.ask(asked, { id: "cd".repeat(16) })]);
  const [outcomes] = await Promise.all([both, decide("approve")]);
  assert.deepEqual(outcomes.map((one) => one.decision.revision), [2, 2]);
  await assert.rejects(client.ask(call(), { id: "cd".repeat(16) }), (error) => error instanceof Refused && error.code === "conflict");
});

test("a wrong token and another agent's name are refused, and nothing is asked", async () => {
  await assert.rejects(new Client({ url, token: "agw_0_x", agent: "agent1" }).ask(call()), Refused);
  await assert.rejects(new Client({ url, token, agent: "agent2" }).ask(call()), Refused);
});

test("another key, and an answer that somebody changed on the way, approve nothing", async () => {
  const other = new Client({ url, token, agent: "agent1", publicKey: Buffer.alloc(32, 7).toString("base64") });
  await Promise.all([assert.rejects(other.gate(call(), () => assert.fail("it ran")), Unverified), decide("approve")]);
  for (const change of [
    (state) => { state.decision.arguments = { name: "evil" }; },
    (state) => { state.decision.digest = "0".repeat(64); },
    (state) => { state.decision.request_id = "0".repeat(32); },
    (state) => { state.decision.action = "edit"; state.decision.arguments = { name: "evil" }; },
    (state) => { delete state.decision; },
  ]) {
    const forging = async (address, init) => {
      const answer = await fetch(address, init);
      const body = await answer.json();
      if (body.status === "approved" && body.decision) change(body);
      return Response.json(body, { status: answer.status });
    };
    const forged = new Client({ url, token, agent: "agent1", fetch: forging });
    await Promise.all([assert.rejects(forged.gate(call(), () => assert.fail("it ran"))), decide("approve")]);
  }
});

test("a gateway that is away for a while is asked again; one that is no gateway approves nothing", async () => {
  let away = 2;
  const flaky = async (address, init) => {
    if (away-- > 0) throw new TypeError("connection refused");
    return fetch(address, init);
  };
  const patient = new Client({ url, token, agent: "agent1", fetch: flaky });
  const [outcome] = await Promise.all([patient.ask(call()), decide("approve")]);
  assert.equal(outcome.runs, true);
  const server = createServer((_, answer) => answer.end('{"status": "approved"}')).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const strange = new Client({ url: `http://127.0.0.1:${server.address().port}`, token, agent: "agent1" });
  await assert.rejects(strange.gate(call(), () => assert.fail("it ran")), (error) => error instanceof Unverified || error instanceof Unreachable || error instanceof Refused);
  server.close();
});
