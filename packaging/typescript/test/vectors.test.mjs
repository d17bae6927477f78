// The vectors of the wire, shared with Python; from here on every language agrees.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { canonical, digestOf, isSigned, NotJson } from "../dist/index.js";

const { digests, signature } = JSON.parse(readFileSync(process.env.VECTORS, "utf8"));

for (const row of digests) {
  test(`digest ${row.digest.slice(0, 8)}`, async () => {
    assert.equal(await digestOf(row.agent, row.call), row.digest);
    assert.equal(canonical(JSON.parse(row.canonical)), row.canonical);
    assert.notEqual(await digestOf("other", row.call), row.digest);
    assert.notEqual(await digestOf(row.agent, row.call, { changed: true }), row.digest);
  });
}

test("a signature is over everything but itself", async () => {
  const { public_key: key, decision } = signature;
  assert.equal(await isSigned(decision, key), true);
  assert.equal(await isSigned({ ...decision, revision: 3 }, key), false);
  assert.equal(await isSigned({ ...decision, more: true }, key), false);
  assert.equal(await isSigned({ ...decision, signature: undefined }, key), false);
  assert.equal(await isSigned({ ...decision, signature: "AAAA" }, key), false);
  assert.equal(await isSigned(decision, "no key"), false);
  assert.equal(await isSigned(decision, `${Buffer.alloc(32, 7).toString("base64")}, ${key}`), true);
  assert.equal(await isSigned(decision, `no key,${Buffer.alloc(32, 7).toString("base64")}`), false);
});

test("what JSON libraries read differently is refused", () => {
  for (const value of [NaN, Infinity, 2 ** 53, -(2 ** 53), "\ud800", "a\0b", { "\udc00": 1 }, undefined, 1n, () => 1]) {
    assert.throws(() => canonical(value), NotJson);
  }
  assert.equal(canonical({ b: undefined, a: -0 }), '{"a":0}');
});
