"""Evidence reports: what they say, that a file is enough, and that no change goes unnoticed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main as command
from gateway.domain.audit import verify
from gateway.domain.evidence import parse_scope, sign_report, verify_report
from gateway.domain.policy_document import Route
from gateway.domain.records import StoredRequest
from gateway.domain.risk import RiskRule
from gateway.errors import InvalidRequest
from gateway.models import Action, Execution, Report, RiskLevel, Status
from gateway.stores.archive_folder import Archive
from gateway.stores.audit import Sealer
from gateway.wire.signatures import Signer
from tests.approvals.test_absences import leave
from tests.approvals.test_grant_creation import remember
from tests.audit.test_archive import archived, forgotten, reopened, sealed
from tests.audit.test_audit import exported
from tests.web.chromium import chromium
from tests.world import SEED, World, click, identity, over_http

KEY = Signer(SEED).public_key
OTHER_KEY = Signer("A" * 43 + "=").public_key
EVER = "2001-01-01..2999-12-31"
DIFFERS = "the text differs from the events"


@dataclass
class Evidence:
    """`gateway audit evidence` on the world's namespace, and what it prints."""

    world: World
    folder: Path
    archive: Path
    capsys: pytest.CaptureFixture[str]

    async def run(self, *words: str) -> tuple[int, str]:
        """Run `gateway audit` with these words; return its exit code and what it said."""
        code = await asyncio.to_thread(command, ["audit", *words])
        said = self.capsys.readouterr()
        return code, said.out + said.err

    async def make(self, about: str) -> tuple[int, str, Path]:
        """Write a report; return the exit code, what the command said, and the file."""
        path = self.folder / f"{about}.html"
        return *(await self.run("evidence", about, str(path), "--by", "eve")), path


@pytest.fixture
def evidence(
    world: World,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    server_url: str,
) -> Evidence:
    """Return the command for the world's namespace."""
    monkeypatch.setenv("REDIS_URL", server_url)
    monkeypatch.setenv("GATEWAY_NAMESPACE", world.store.keys.namespace)
    monkeypatch.setenv("GATEWAY_ARCHIVE", str(tmp_path / "archive"))
    monkeypatch.setenv("GATEWAY_SIGNING_KEY", SEED)
    monkeypatch.delenv("GATEWAY_PUBLIC_KEY", raising=False)
    archive = tmp_path / "archive" / world.store.keys.namespace
    return Evidence(world, tmp_path, archive, capsys)


def checked(text: str, keys: str = KEY) -> list[str]:
    """Return the problems of a report."""
    return verify_report(text.splitlines(keepends=True), keys).problems


def shown(text: str) -> str:
    """Return the rows of a report as a reader sees them: without the data and the hidden rows."""
    rows = [line for line in text.split("\n") if line.startswith("<tr data-line")]
    return "\n".join(re.sub(r"^<tr data-line='[^']*'>", "", row) for row in rows)


def signed_again(lines: list[str], seed: str = SEED) -> str:
    """Return a report with its last line replaced by a right signature over the other lines."""
    body = "".join(f"{line}\n" for line in lines[:-1])
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f"{body}{sign_report(digest, Signer(seed))}\n"


async def lived(world: World) -> StoredRequest:
    """Have ann and bob approve a request together, with other requests in between."""
    await world.put(
        risks=(RiskRule(name="money", level=RiskLevel.HIGH, reason="moves money"),),
        routes=(Route(approvers=("ann", "bob"), quorum=2),),
    )
    await world.submit(arguments={"n": 1})
    record = await world.submit(arguments={"iban": "DE02 1203"})
    after = await world.core.requests.decide(click(record, confirmed=True))
    await Sealer(world.store, world.feed).seal_all()
    await world.submit(arguments={"n": 2})
    bob = click(after, identity=identity("bob"), confirmed=True)
    decided = await world.core.requests.decide(bob)
    await world.submit(arguments={"n": 3})
    return await world.approvals.report(
        decided.id, Report(execution=Execution.SUCCEEDED, detail="paid"), over_http()
    )


async def test_a_report_says_who_decided_by_which_rules(evidence: Evidence) -> None:
    """Two people, the route, its quorum, the risk and its rule, the policy, the agent's report and
    the call that the digest covers; and nothing of the other requests."""
    record = await lived(evidence.world)
    code, said, path = await evidence.make(record.id)
    text = path.read_text(encoding="utf-8")
    assert (code, "nothing is wrong" in said, oct(path.stat().st_mode)[-3:]) == (0, True, "600")
    told = shown(text)
    policy = await evidence.world.store.generation()
    for words in (
        "ann approved the request of agent &quot;bot&quot;; it needs more people",
        "bob approved the request of agent &quot;bot&quot;",
        "approved by: ann, bob",
        "route: default",
        "quorum: 2",
        "risk: high",
        "risk reasons: &quot;moves money&quot;",
        f"policy generation: {policy}",
        "reported how the call went: succeeded",
        "detail: paid",
        f"digest: {record.digest}",
    ):
        assert words in told, words
    assert "{&quot;iban&quot;: &quot;DE02 1203&quot;}" in text
    assert "It does not record who read a card" in text
    others = {one.request_id for one in await evidence.world.events()} - {record.id, ""}
    assert len(others) == 3
    assert not any(other in told for other in others)
    (noted,) = [one for one in await evidence.world.events() if one.type == "evidence_made"]
    assert noted.data == {"by": "eve", "about": f"request {record.id}"}


async def decided_by_grant(world: World) -> StoredRequest:
    """Have a grant approve a request."""
    first = await world.submit()
    await remember(world, first)
    return await world.submit()


async def denied(world: World) -> StoredRequest:
    """Have ann deny a request, with a reason and a private note."""
    record = await world.submit()
    return await world.core.requests.decide(click(record, Action.DENY, message="not today"))


async def edited(world: World) -> StoredRequest:
    """Have ann change a call and approve it."""
    record = await world.submit(arguments={"n": 1})
    return await world.core.requests.decide(click(record, Action.EDIT, arguments={"n": 2}))


async def expired(world: World) -> StoredRequest:
    """Have a request expire."""
    record = await world.submit(timeout=0.01)
    while (await world.store.load(record.id) or record).status is Status.PENDING:
        await world.sweeper.sweep()
    return await world.core.requests.get(record.id)


async def delegated(world: World) -> StoredRequest:
    """Have bob, whom ann named, approve a request."""
    await leave(world)
    record = await world.submit()
    return await world.core.requests.decide(click(record, identity=identity("bob")))


Life = Callable[[World], Any]


@pytest.mark.parametrize(
    ("life", "says"),
    [
        (decided_by_grant, "kind: grant"),
        (denied, "not today"),
        (edited, "changed and approved"),
        (expired, "expired"),
        (delegated, "away: (person: ann; delegate: bob"),
    ],
)
async def test_each_way_to_end_is_told_and_verifies(
    evidence: Evidence, life: Life, says: str
) -> None:
    """A grant, a denial, an edit, an expiry, a delegate."""
    record = await life(evidence.world)
    code, said, path = await evidence.make(record.id)
    text = path.read_text(encoding="utf-8")
    assert (code, says in shown(text)) == (0, True), said
    if record.edited is not None:
        assert text.count("&quot;arguments&quot;: {&quot;n&quot;: ") == 4, "as data and as text"


async def test_a_browser_shows_the_text_and_runs_nothing(evidence: Evidence) -> None:
    """The words of people and agents stay words; the hidden rows and the data are not seen."""
    hostile = "</td></table><img src=x onerror='document.title=1'><script>document.title=2</script>"
    record = await evidence.world.submit(arguments={"text": hostile})
    await evidence.world.core.requests.decide(click(record, Action.DENY, message=hostile))
    code, said, path = await evidence.make(record.id)
    assert code == 0, said
    async with chromium() as page:
        await page.goto(path.as_uri())
        await page.until("document.title && document.readyState === 'complete'")
        text = await page.evaluate("document.body.innerText")
        assert text.count(hostile) == 3, "the call, the sentence, and the message of the decision"
        assert "data-line" not in text and "previous" not in text
        found = "document.scripts.length + document.images.length"
        assert await page.evaluate(found) == 0
        assert await page.evaluate("document.title") == f"Evidence report: request {record.id}"
        assert await page.evaluate("document.querySelectorAll('table').length") == 1


async def test_secrets_are_masked_on_every_machine(evidence: Evidence) -> None:
    """The call is masked and says that its digest cannot be checked; a reader with another key for
    masks finds nothing wrong."""
    token = "ghp_" + "a1B2" * 9
    record = await evidence.world.submit(arguments={"command": f"curl -H 'Token: {token}'"})
    await evidence.world.core.requests.decide(
        click(record, Action.DENY, message=f"you sent {token}")
    )
    code, said, path = await evidence.make(record.id)
    text = path.read_text(encoding="utf-8")
    assert (code, token in text, "the call has masked secrets" in said) == (0, False, True)
    assert verified_apart(path, "--key", KEY).returncode == 0


def verified_apart(path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Verify a file in a process that can reach no Redis, no gateway and no network."""
    env = {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "PATH": os.environ["PATH"],
        "REDIS_URL": "redis://127.0.0.1:1",
        "GATEWAY_DATA_DIR": "none",
    }
    run = [sys.executable, "-c", _APART, "audit", "verify", str(path), *words]
    return subprocess.run(
        run, env=env, cwd=path.parent, capture_output=True, text=True, check=False
    )


_APART = """
import socket, sys
def refuse(*words, **more):
    raise OSError("this process has no network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from gateway.cli import main
sys.exit(main(sys.argv[1:]))
"""


async def test_a_reader_needs_the_file_and_a_trusted_key(evidence: Evidence) -> None:
    """Without a network and a Redis. Without a key, or with another key, nothing verifies."""
    _, _, path = await evidence.make((await lived(evidence.world)).id)
    whole = verified_apart(path, "--key", f"{OTHER_KEY},{KEY}")
    assert (whole.returncode, "nothing is wrong" in whole.stdout) == (0, True), whole.stderr
    alone = verified_apart(path)
    assert (alone.returncode, "without a key that you trust" in alone.stderr) == (2, True)
    wrong = verified_apart(path, "--key", OTHER_KEY)
    assert (wrong.returncode, "no key that you trust signed" in wrong.stdout) == (1, True)
    told = json.loads(verified_apart(path, "--key", KEY, "--json").stdout)
    assert (told["problems"], told["events"] > 3, told["hidden"] > 3) == ([], True, True)


def broken(lines: list[str], other: list[str]) -> dict[str, list[str]]:
    """Return each way to tamper with one line or two: name and lines."""
    ways: dict[str, list[str]] = {}
    for at, line in enumerate(lines):
        rest = lines[at + 1 :]
        ways[f"drop {at}"] = lines[:at] + rest
        ways[f"double {at}"] = [*lines[: at + 1], line, *rest]
        ways[f"cut {at}"] = lines[:at]
        ways[f"alter {at}"] = [*lines[:at], f"{line[:-1]}{'x' if line[-1:] != 'x' else 'y'}", *rest]
        if rest and rest[0] != line:
            ways[f"swap {at}"] = [*lines[:at], rest[0], line, *rest[1:]]
        if at < len(other) and other[at] != line:
            ways[f"splice {at}"] = [*lines[:at], other[at], *rest]
            if lines[:at] != other[:at]:  # otherwise that is the other report
                ways[f"join {at}"] = lines[:at] + other[at:]
    return ways


async def test_no_change_of_any_line_goes_unnoticed(evidence: Evidence) -> None:
    """Each line dropped, doubled, altered, swapped, cut off, or taken from another report. A person
    with the signing key, who signs the result again, must leave all sealed lines in place too."""
    record = await lived(evidence.world)
    other = await denied(evidence.world)
    _, _, path = await evidence.make(record.id)
    _, _, second = await evidence.make(other.id)
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    assert checked("\n".join([*lines, ""])) == []
    assert checked(signed_again(lines)) == []
    tampered = broken(lines, second.read_text(encoding="utf-8").split("\n")[:-1])
    assert len(tampered) > 5 * len(lines)
    unnoticed = [name for name, one in tampered.items() if not checked("\n".join([*one, ""]))]
    assert unnoticed == []
    resigned = {name: one for name, one in tampered.items() if len(one) > 2}
    passed = [name for name, one in resigned.items() if not checked(signed_again(one))]
    last = len(lines) - 1  # the signature, which was replaced anyway
    assert set(passed) == {f"{way} {last}" for way in ("alter", "splice", "join")} & set(resigned)


def _events(lines: list[str], kind: str) -> list[int]:
    return [at for at, line in enumerate(lines) if f'{{"{kind}"' in line[:60]]


async def test_what_the_signer_cannot_change_either(evidence: Evidence) -> None:
    """With the right key: an event's words, an event hidden, the first seal left out, the call, and
    the text outside the table."""
    record = await lived(evidence.world)
    _, _, path = await evidence.make(record.id)
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    events, seals = _events(lines, "event"), _events(lines, "seal")
    assert len(seals) == 2

    def changed(at: int, before: str, after: str) -> list[str]:
        assert before in lines[at]
        return checked(
            signed_again([*lines[:at], lines[at].replace(before, after), *lines[at + 1 :]])
        )

    said = next(at for at in events if "<td>ann approved" in lines[at])
    assert any(DIFFERS in one for one in changed(said, "<td>ann", "<td>eve"))
    sealed_in = next(at for at in events if '"person": "ann"' in lines[at])
    assert any("differ from the sealed" in one for one in changed(sealed_in, '"ann"', '"eve"'))
    hidden = _events(lines, "hidden")[0]
    other = re.search(r'"request_id": "(\w*)"', lines[hidden])
    assert other is not None
    found = (
        changed(hidden, other[1] or '"request_id": ""', record.id) if other[1] else ["differ from"]
    )
    assert any("differ from" in one or "must not be hidden" in one for one in found)
    start = min(events + _events(lines, "hidden"))
    late = checked(signed_again(lines[:start] + lines[seals[0] + 1 :]))
    assert any("the beginning of request" in one for one in late)
    title = next(at for at, line in enumerate(lines) if line.startswith("<h1>"))
    assert any(DIFFERS in one for one in changed(title, "Evidence", "Complete evidence"))
    iban = next(at for at, line in enumerate(lines) if "DE02 1203" in line and at > 1)
    assert any(DIFFERS in one for one in changed(iban, "DE02", "DE03"))
    both = [line.replace("DE02 1203", "DE03 1203") for line in lines]
    assert any("the call differs from the digest" in one for one in checked(signed_again(both)))


async def test_an_event_of_the_request_cannot_be_hidden(evidence: Evidence) -> None:
    """A hidden row keeps the id of its request under the seal, so a denial cannot become a hash."""
    record = await denied(evidence.world)
    export = await exported(evidence.world)
    events = [json.loads(line)["event"] for line in export if line.startswith('{"event"')]
    from gateway.domain.audit import hide_event  # noqa: PLC0415
    from gateway.domain.records import AuditEvent  # noqa: PLC0415
    from gateway.wire.codec import build, plain  # noqa: PLC0415

    hidden = [json.dumps({"hidden": plain(hide_event(build(AuditEvent, one)))}) for one in events]
    lines = [*hidden, *(line for line in export if line.startswith('{"seal"'))]
    own = verify(lines, lambda event: event.request_id == record.id).problems
    assert [one.split(": ")[1] for one in own] == [
        f"event {one['id']} must not be hidden"
        for one in events
        if one.get("request_id") == record.id
    ]
    assert verify(lines, lambda event: False).problems == []
    assert len(verify(lines).problems) == len(events), "an export hides nothing"


async def test_a_report_of_another_version_needs_its_signature(evidence: Evidence) -> None:
    """Its sentences may differ: the check says that only the signature covers them."""
    _, _, path = await evidence.make((await denied(evidence.world)).id)
    text = path.read_text(encoding="utf-8").replace("asked for approval", "wanted an approval")
    from gateway import __version__  # noqa: PLC0415

    old = text.replace(
        f"&quot;version&quot;: &quot;{__version__}", "&quot;version&quot;: &quot;0.0.9"
    )
    assert old != text
    found = verify_report(signed_again(old.split("\n")[:-1]).splitlines(keepends=True), KEY)
    assert (found.problems, any("version 0.0.9 made" in one for one in found.notes)) == ([], True)
    assert checked(old) == ["no key that you trust signed this file as it is"]


@pytest.mark.parametrize("text", ["", "<!doctype html>\n", "<!doctype html>\n<html>\n", "{}\n"])
def test_other_files_are_no_reports(text: str) -> None:
    """An empty file, the first line alone, a page without data, an export."""
    assert "this is not an evidence report" in checked(text)[0]


async def test_a_period_goes_on_across_segments_of_the_archive(evidence: Evidence) -> None:
    """Its events come from segments and Redis; those outside are hidden; it begins and ends with a
    seal that has older and newer events."""
    world, store = evidence.world, reopened(evidence.world, evidence.archive)
    for _ in range(3):
        await sealed(world)
        assert await archived(store) == 1
    await sealed(world)
    code, said, path = await evidence.make(EVER)
    assert (code, "the period was not over" in said) == (0, True), said
    text = path.read_text(encoding="utf-8")
    whole = await store.history(None, 9999)
    assert len(_events(text.split("\n"), "event")) == len(whole)
    assert "approver" in text.split("</table>")[1], "the figures"
    assert checked(text) == []


async def test_a_period_hides_what_is_outside(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one event before and one after it, nothing at its ends can be left out."""
    world, store = evidence.world, reopened(evidence.world, evidence.archive)
    marks: list[int] = []
    for _ in range(3):
        await sealed(world)
        marks.append(await store.now())
        assert await archived(store) == 1
    from gateway.cli import evidence as module  # noqa: PLC0415
    from gateway.domain.evidence import EvidenceScope  # noqa: PLC0415

    scope = EvidenceScope(since=marks[0], until=marks[1])
    monkeypatch.setattr(module, "parse_scope", lambda about: scope)
    code, said, path = await evidence.make("here")
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    assert code == 0, said
    inside = [one for one in await store.history(None, 999) if marks[0] <= one.at < marks[1]]
    assert len(_events(lines, "event")) == len(inside) > 0
    seals = _events(lines, "seal")
    assert len(seals) == 3, "the one before, its own, and the one after"
    start = min(_events(lines, "hidden"))
    late = checked(signed_again(lines[:start] + lines[seals[0] + 1 :]))
    early = checked(signed_again(lines[: seals[1] + 1] + lines[seals[2] + 1 :]))
    assert [
        any("the audit log is missing from" in one for one in found) for found in (late, early)
    ] == [
        True,
        True,
    ]


async def test_a_lost_segment_is_named_with_its_span(evidence: Evidence) -> None:
    """In a period, and within the life of a request: the report says what is missing, and fails."""
    world, store = evidence.world, reopened(evidence.world, evidence.archive)
    waiting = await world.submit()
    for _ in range(3):
        await sealed(world)
        assert await archived(store) == 1
    await world.core.requests.decide(click(waiting))
    Archive(evidence.archive).path(2).unlink()
    for about in (EVER, waiting.id):
        code, said, path = await evidence.make(about)
        assert code == 1
        assert "segment 2 cannot be read" in said
        assert re.search(r"the audit log is missing from \d{4}-\d\d-\d\d .* to .* UTC", said)
        assert "<td>missing<td>segment 2 of the audit log" in path.read_text(encoding="utf-8")


async def test_a_trimmed_audit_says_from_when_on_it_is_complete(evidence: Evidence) -> None:
    """Retention deleted the beginning of the period."""
    world, store = evidence.world, reopened(evidence.world, evidence.archive)
    await sealed(world)
    assert await archived(store) == 1
    assert await forgotten(store) > 0
    await sealed(world)
    code, said, _ = await evidence.make(EVER)
    assert (code, "the audit log is missing from 2001-01-01 00:00:00 to 20" in said) == (1, True)


async def test_nothing_is_written_that_cannot_be_proven(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown request, days that do not exist, a gateway's key that this machine lacks."""
    for about in ("ab" * 16, "2026Q5", "2026-02-30..2026-03-01", "2999Q1"):
        done, said, path = await evidence.make(about)
        assert (done != 0, path.exists()) == (True, False), said
    record = await denied(evidence.world)
    monkeypatch.delenv("GATEWAY_SIGNING_KEY")
    monkeypatch.setenv("GATEWAY_DATA_DIR", str(evidence.folder / "empty"))
    done, said, path = await evidence.make(record.id)
    assert (done, "the signing key is unknown here" in said, path.exists()) == (2, True, False)


@pytest.mark.parametrize(
    ("about", "since", "until"),
    [
        ("2026Q1", 1_767_225_600_000, 1_775_001_600_000),
        ("2026Q4", 1_790_812_800_000, 1_798_761_600_000),
        ("2026-12-31..2026-12-31", 1_798_675_200_000, 1_798_761_600_000),
    ],
)
def test_a_quarter_and_days_are_in_utc(about: str, since: int, until: int) -> None:
    """From midnight to midnight; the last day is included."""
    scope = parse_scope(about)
    assert (scope.since, scope.until) == (since, until)


@pytest.mark.parametrize("about", ["2026-13-01..2026-13-02", "2026-10-02..2026-10-01", "9999Q4"])
def test_impossible_periods_are_refused(about: str) -> None:
    """A month that does not exist, an end before the beginning, a year without a next one."""
    with pytest.raises(InvalidRequest, match="period"):
        parse_scope(about)
