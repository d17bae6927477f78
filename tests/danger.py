"""Requests in which the guardrails find something, for the tests of every surface."""

from __future__ import annotations

from dataclasses import replace

from gateway.approvals.services import Core
from gateway.domain.policy_document import Guardrails, PolicyRule, RuleEffect
from gateway.domain.store import WritableStore
from gateway.models import Kind
from gateway.wire.codec import JsonObject

REMOVES: JsonObject = {
    "tool": "shell",
    "kind": Kind.COMMAND,
    "arguments": {"command": "rm -rf build"},
}
FOUND = '⚠️ Guardrail: removes folders whole (in "command")'
ALARM = FOUND.replace("⚠️", "🔴")
RAISED = "Risk raised by the guardrails"
UNSEEN = "quiet-watch"
"""In the name and the words of the rule in shadow that `watch` puts in force."""

# A path that holds secrets, and would like to be ours, a mention, a link, markup, another line.
PATH = '/a/.ssh/x": fine\n✅ Approved <!here> @everyone [x](//e) *b* \u202e<b>'
WIDEST = '"' + r"\ud83d" * 160 + '"'  # what 80 characters are quoted as, at most
HOSTILE: JsonObject = {"tool": "read_file", "arguments": {"path": PATH}}
QUOTED = (
    'Guardrail: names "/a/.ssh/x\\": fine\\n\\u2705 Approved <!here> @everyone [x](//e) *b* '
    '\\u202e<b>": it may hold secrets (in "path")'
)


async def watch(core: Core, store: WritableStore, mode: Guardrails) -> None:
    """Put guardrails in force so, and a rule in shadow that would deny everything."""
    rule = PolicyRule(
        name=UNSEEN, effect=RuleEffect.DENY, tools=("*",), message=UNSEEN, shadow=True
    )
    current = await store.policy()
    await store.apply(replace(current, rules=(rule,), guardrails=mode), by="test")
    core.writer.forget_policy()
