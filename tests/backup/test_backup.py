"""A backup holds one moment of a gateway, and a restore brings it back with nothing allowed."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import signal
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main
from gateway.domain.audit import verify
from gateway.domain.records import Identity, Remember, StoredRequest
from gateway.errors import Conflict, Unauthorized, Used
from gateway.models import Action, Execution, Report, Status
from gateway.policy.grant_book import every
from gateway.policy.grants.grant import Effect
from gateway.stores import backup as saved
from gateway.stores.archive_folder import Archive
from gateway.stores.archiver import Archiver, Trimming
from gateway.stores.audit import Sealer, export
from gateway.stores.connect import connect
from gateway.stores.grants import RedisGrants
from gateway.stores.requests import RedisStore
from gateway.stores.sign_in import RedisLogins
from tests.audit.test_archive import AT_ONCE
from tests.faults.processes import CONTEXT
from tests.world import AGENT, World, assembled, click, over_http, request

Run = Callable[..., Awaitable[tuple[int, str]]]
OTHER = "q" * 16


@pytest.fixture
def run(
    server_url: str,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Return a function that runs a command on this namespace; it returns the code and words."""
    monkeypatch.setenv("REDIS_URL", server_url)
    monkeypatch.setenv("GATEWAY_NAMESPACE", namespace)
    monkeypatch.setenv("GATEWAY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("GATEWAY_ARCHIVE", str(tmp_path / "archive"))

    async def command(*words: str) -> tuple[int, str]:
        code = await asyncio.to_thread(main, words)
        said = capsys.readouterr()
        return code, said.out + said.err

    return command


async def everything(store: RedisStore) -> dict[str, Any]:
    """Return all keys of a namespace with their values, and with their rights to live."""
    keys = store.keys
    found = {}
    async for key in store.redis.scan_iter(match=f"{keys.of('')}*"):
        name = key.removeprefix(keys.of(""))
        if name in ("events", "seals"):
            found[name] = await store.redis.xrange(key)
            continue
        rows = await store.redis.eval(saved._READ_SOME, 1, keys.meta, keys.of(""), name)
        found[name] = sorted(map(str, rows[0][3])), rows[0][2] > 0
    return found


async def lose(store: RedisStore) -> None:
    """Lose everything in Redis, as an operator who has a backup only."""
    async for key in store.redis.scan_iter(match=f"{store.keys.of('')}*"):
        await store.redis.delete(key)


async def approved(world: World, text: str, **how: Any) -> StoredRequest:
    """Submit a request as a process that has left, and approve it."""
    asked = request(arguments={"command": text})
    record, _ = await world.approvals.submit(asked, over_http(None))
    return await world.core.requests.decide(click(record, **how))


@dataclass
class Populated:
    """What a gateway has before it is lost."""

    token: str
    person: str
    session: str
    code: str
    free: StoredRequest
    allowed: StoredRequest
    denied: StoredRequest


async def populate(world: World) -> Populated:
    """Make an agent's and a person's token, a session, a link, an approval, grants of both kinds
    and a pending request."""
    token = (await world.credentials.rotate_agent(AGENT)).token
    person = (await world.credentials.add_approver("ann", admin=True)).token
    logins = RedisLogins(world.store, world.clock)
    session = await logins.redeem(await logins.invite("ann"), address="here")
    code = await logins.invite("ann")
    free = await approved(world, "free")
    await world.submit(arguments={"command": "pending"})
    allowed = await world.submit(arguments={"command": "again"})
    await world.core.requests.decide(click(allowed, remember=Remember()))
    await report(world, allowed)
    denied = await world.submit(arguments={"command": "never"})
    await world.core.requests.decide(click(denied, Action.DENY, remember=Remember()))
    await Sealer(world.store, world.feed).seal_all()
    return Populated(token, person, session, code, free, allowed, denied)


async def report(world: World, record: StoredRequest) -> None:
    """Report that a call ran."""
    ran = Report(execution=Execution.SUCCEEDED)
    await world.approvals.report(record.id, ran, over_http())


async def test_everything_comes_back(world: World, run: Run, tmp_path: Path) -> None:
    """Requests, people, policy and audit are the same; the backup itself changed nothing."""
    store, made = world.store, await populate(world)
    before, people = await everything(store), (await store.policy()).people
    file = tmp_path / "gw.backup"
    assert await run("backup", str(file)) == (0, told(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert await everything(store) == before
    await lose(store)
    code, said = await run("restore", str(file))
    assert code == 0, said
    assert "  4 requests, 2 grants, 3 people, 1 agents" in said
    assert "Requests, grants and audit are valid." in said
    assert "1 approvals made void, 1 grants suspended" in said
    after = await everything(store)
    kept = {name for name in before if name.startswith(("req:", "copies:", "decided:", "load:"))}
    kept |= {"pending", "done", "policy", "grants", "grants:due", "agents"}
    kept -= {f"req:{made.free.id}"}
    assert {one: after[one] for one in kept} == {one: before[one] for one in kept}
    assert after["events"][: len(before["events"])] == before["events"]
    assert after["seals"] == before["seals"]
    assert (await store.policy()).people == people
    assert (await store.stopped_by() or ("",))[0] == "operator"
    assert verify([one async for one in export(store)]).ok


async def test_nothing_is_allowed_until_it_is_confirmed(
    world: World, run: Run, tmp_path: Path
) -> None:
    """Approvals stay void; grants, tokens, sign-ins and links come back, each kind on its own."""
    store, made = world.store, await populate(world)
    logins = RedisLogins(store, world.clock)
    await run("backup", str(tmp_path / "b"))
    await lose(store)
    assert (await run("restore", str(tmp_path / "b")))[0] == 0
    world.core.writer.forget_policy()
    with pytest.raises(Used, match="a backup was restored"):
        await world.approvals.consume(made.free.id, over_http(OTHER))
    found = {one.effect: one for one in await every(RedisGrants(store))}
    assert found[Effect.ALLOW].outdated is not None
    assert found[Effect.DENY].outdated is None
    assert await known(world, made.token, made.person) == [False, False]
    assert await logins.who(made.session) is None
    with pytest.raises(Unauthorized):
        await logins.redeem(made.code, address="there")
    assert (await run("resume"))[0] == 0
    assert await again(world, made.allowed) is Status.PENDING
    assert await again(world, made.denied) is Status.DENIED

    assert (await run("restore", "--confirm", "agents"))[0] == 0
    assert await known(world, made.token, made.person) == [True, False]
    assert (await run("restore", "--confirm", "sign-ins"))[0] == 0
    assert await known(world, made.token, made.person) == [True, True]
    assert await logins.who(made.session) == Identity(platform="token", id="ann")
    assert (await run("restore", "--confirm", "links"))[0] == 0
    await logins.redeem(made.code, address="there")
    assert await again(world, made.allowed) is Status.PENDING
    assert (await run("restore", "--confirm", "grants"))[0] == 0
    assert await again(world, made.allowed) is Status.APPROVED
    for kind in ("grants", "agents", "sign-ins", "links"):
        assert f"no {kind} are held back" in (await run("restore", "--confirm", kind))[1]
    with pytest.raises(Used):
        await world.approvals.consume(made.free.id, over_http(OTHER))


async def known(world: World, *tokens: str) -> list[bool]:
    """Return which tokens the gateway knows now."""
    world.credentials._read_at = float("-inf")
    return [await world.credentials.authenticate(one) is not None for one in tokens]


async def again(world: World, record: StoredRequest) -> Status:
    """Submit the same call as another request, and return what becomes of it."""
    asked = replace(record.request, id=os.urandom(16).hex())
    return (await world.approvals.submit(asked, over_http()))[0].status


def told(file: Path) -> str:
    """Return what the command says about a file."""
    lines = len(gzip.decompress(file.read_bytes()).splitlines()) - 1
    return f"{file} is complete: {lines} lines. Keep it as private as Redis.\n"


async def test_a_revoked_redis_user_comes_back_only_when_confirmed(
    world: World, run: Run, tmp_path: Path
) -> None:
    """A server may have kept its users, although it lost the data; a password that was replaced
    does not come back."""
    made = await world.credentials.rotate_agent(AGENT, overlap_ms=1)
    await run("backup", str(tmp_path / "b"))
    await lose(world.store)
    assert (await run("restore", str(tmp_path / "b")))[0] == 0
    assert made.redis_user not in await world.store.redis.acl_users()
    assert (await run("restore", "--confirm", "agents"))[0] == 0
    user = await world.store.redis.acl_getuser(made.redis_user)
    assert len(user["passwords"]) == 1


async def test_a_token_made_after_the_restore_wins(world: World, run: Run, tmp_path: Path) -> None:
    """Confirming brings back no second token of the same name."""
    old = (await world.credentials.rotate_agent(AGENT)).token
    await run("backup", str(tmp_path / "b"))
    await lose(world.store)
    await run("restore", str(tmp_path / "b"))
    world.credentials._read_at = float("-inf")
    made = await world.credentials.add_agent(AGENT)
    new, user = made.token, await world.store.redis.acl_getuser(made.redis_user)
    assert (await run("restore", "--confirm", "agents"))[0] == 0
    assert await world.store.redis.acl_getuser(made.redis_user) == user
    world.credentials._read_at = float("-inf")
    assert await world.credentials.authenticate(old) is None
    assert await world.credentials.authenticate(new) is not None


async def test_a_second_backup_keeps_what_is_held_back(
    world: World, run: Run, tmp_path: Path
) -> None:
    """Restored twice, a token still needs a confirmation, and one is enough."""
    token = (await world.credentials.rotate_agent(AGENT)).token
    for name in ("one", "two"):
        assert (await run("backup", str(tmp_path / name)))[0] == 0
        await lose(world.store)
        assert (await run("restore", str(tmp_path / name)))[0] == 0
    world.credentials._read_at = float("-inf")
    assert await world.credentials.authenticate(token) is None
    assert (await run("restore", "--confirm", "agents"))[0] == 0
    world.credentials._read_at = float("-inf")
    assert await world.credentials.authenticate(token) is not None


def write_forever(url: str, namespace: str) -> None:
    """Submit, approve, consume and report until killed."""

    async def work() -> None:
        async with assembled(url, namespace) as world:
            number = 0
            while True:
                number += 1
                record = await world.submit(arguments={"n": number})
                if number % 3:
                    await world.core.requests.decide(click(record))
                if number % 3 == 1:
                    await world.approvals.consume(record.id, over_http())
                await Sealer(world.store, world.feed).seal_all()

    asyncio.run(work())


async def test_a_backup_under_load_is_one_moment(
    world: World, server_url: str, namespace: str, run: Run, tmp_path: Path
) -> None:
    """While another process writes: the audit ends where the requests do, and its chain holds."""
    process = CONTEXT.Process(target=write_forever, args=(server_url, namespace), daemon=True)
    process.start()
    files = [tmp_path / f"{number}" for number in range(3)]
    for file in files:
        wanted = len(await world.events()) + 60
        await world.until(lambda events, wanted=wanted: len(events) > wanted)  # type: ignore[misc]
        assert (await run("backup", str(file)))[0] == 0
    assert process.is_alive()
    process.kill()
    process.join()
    for file in files:
        await lose(world.store)
        await saved.load_backup(world.store, saved.BackupFile(file))
        latest: dict[str, int] = {}
        for event in await world.events():
            if event.request_id:
                latest[event.request_id] = event.revision
        found = {
            name async for name in world.store.redis.scan_iter(match=world.store.keys.record("*"))
        }
        assert found == {world.store.keys.record(one) for one in latest}
        records = [await world.store.load(one) for one in latest]
        assert {one.id: one.revision for one in records if one} == latest
        pending = {one.id for one in records if one and not one.final}
        assert set(await world.store.redis.zrange(world.store.keys.pending, 0, -1)) == pending
        assert verify([one async for one in export(world.store)]).ok


class Killed(Exception):
    """The restore ended here."""


@pytest.mark.parametrize("after", [0, 1, 4, 8])
async def test_a_restore_that_was_killed_starts_over(
    world: World, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """In between no gateway opens the namespace, and the file restores as if for the first time."""
    await approved(world, "free")
    await run("backup", str(tmp_path / "b"))
    await lose(world.store)
    left, write = [after], saved._write

    async def fragile(*words: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        await write(*words)

    monkeypatch.setattr(saved, "_write", fragile)
    with pytest.raises(Killed):
        await saved.load_backup(world.store, saved.BackupFile(tmp_path / "b"))
    monkeypatch.undo()
    with pytest.raises(Conflict, match="a restore of the namespace"):
        await world.store.check_schema()
    assert await world.store.is_stopped() is not False
    await saved.load_backup(world.store, saved.BackupFile(tmp_path / "b"))
    await world.store.redis.delete(world.store.keys.restoring)
    again = await everything(world.store)
    await lose(world.store)
    await saved.load_backup(world.store, saved.BackupFile(tmp_path / "b"))
    await world.store.redis.delete(world.store.keys.restoring)
    assert await everything(world.store) == again
    await world.store.check_schema()


async def test_a_backup_that_was_killed_leaves_the_older_file(
    world: World, server_url: str, namespace: str, run: Run, tmp_path: Path
) -> None:
    """The new file appears only when it is complete."""
    file = tmp_path / "b"
    await run("backup", str(file))
    older = file.read_bytes()
    ready = CONTEXT.Event()
    process = CONTEXT.Process(
        target=write_backup_and_wait, args=(server_url, namespace, str(file), ready), daemon=True
    )
    process.start()
    await asyncio.to_thread(ready.wait)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert file.read_bytes() == older
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in tmp_path.glob(".b.*.part"))


def write_backup_and_wait(url: str, namespace: str, file: str, ready: Any) -> None:
    """Write a backup, and stop before its end."""
    lines = saved._lines

    async def work() -> None:
        async with assembled(url, namespace) as world:
            await saved.write_backup(world.store, Path(file), {})

    async def slow(*words: Any) -> Any:
        async for line in lines(*words):
            yield line
        ready.set()
        await asyncio.Event().wait()

    vars(saved)["_lines"] = slow
    asyncio.run(work())


async def test_a_used_namespace_is_left_alone(world: World, run: Run, tmp_path: Path) -> None:
    """Also after a restore, and where only one key is left."""
    await run("backup", str(tmp_path / "b"))
    before = await everything(world.store)
    code, said = await run("restore", str(tmp_path / "b"))
    assert (code, "stop the gateways and restore into an empty" in said) == (10, True)
    assert await everything(world.store) == before
    await lose(world.store)
    assert (await run("restore", str(tmp_path / "b")))[0] == 0
    restored = await everything(world.store)
    assert (await run("restore", str(tmp_path / "b")))[0] == 10
    assert await everything(world.store) == restored


def packed(*lines: Any) -> bytes:
    """Return lines as a file."""
    return gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines), mtime=0)


HEAD = {"format": 1, "schema": 4, "namespace": "x", "version": "9.9", "made": 0, "public_key": ""}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not a backup"),
        (b"hello\n", "is not a backup"),
        (gzip.compress(b"hello\n", mtime=0), "is not a backup"),
        (packed({"event": {}}), "is not a backup"),
        (packed({"backup": 3}), "is not a backup"),
        (packed({"backup": {"format": 1, "schema": 4}}), "is not a backup"),
        (packed({"backup": {**HEAD, "format": 2}}), "format 2 and schema 4.*use version 9.9"),
        (packed({"backup": {**HEAD, "schema": 5}}), "format 1 and schema 5.*use version 9.9"),
        (packed({"backup": HEAD}), "its end is missing"),
        (packed({"backup": HEAD}, {"end": [1, "0" * 64]}), "its checksum does not match"),
    ],
)
async def test_another_file_is_refused(
    world: World, run: Run, tmp_path: Path, content: bytes, says: str
) -> None:
    """Foreign, newer, or without its end: a sentence, and nothing was changed."""
    await refused(world, run, tmp_path, content, says)


async def refused(world: World, run: Run, tmp_path: Path, content: bytes, says: str) -> None:
    """Check that a file is refused into an empty namespace, which stays empty."""
    await lose(world.store)
    (tmp_path / "bad").write_bytes(content)
    code, said = await run("restore", str(tmp_path / "bad"))
    assert code == 2
    assert len(said.splitlines()) == 1
    assert re.search(says, said), said
    assert await everything(world.store) == {}


async def test_a_damaged_file_is_refused(world: World, run: Run, tmp_path: Path) -> None:
    """Cut at any place, with a changed byte, a missing or doubled line, or something behind it."""
    await approved(world, "free")
    await run("backup", str(tmp_path / "b"))
    whole = (tmp_path / "b").read_bytes()
    bad = [whole[:size] for size in range(40, len(whole), len(whole) // 12)]
    bad.append(whole[: len(whole) // 2] + b"\x00" + whole[len(whole) // 2 + 1 :])
    lines = [json.loads(line) for line in gzip.decompress(whole).splitlines()]
    bad += [packed(*lines[:3], *lines[4:]), packed(*lines[:3], lines[2], *lines[3:])]
    bad += [packed(*lines, lines[2]), packed(*lines[:-2], lines[-1])]
    for content in bad:
        await refused(world, run, tmp_path, content, "not a backup|damaged or incomplete")


async def test_another_namespace_and_a_missing_file_are_refused(
    world: World, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the setting to change, or the name of the file."""
    await run("backup", str(tmp_path / "b"))
    monkeypatch.setenv("GATEWAY_NAMESPACE", "other")
    code, said = await run("restore", str(tmp_path / "b"))
    assert (code, f"set GATEWAY_NAMESPACE={world.store.keys.namespace}" in said) == (2, True)
    assert (await run("restore", str(tmp_path / "none")))[0] == 2
    assert (await run("restore"))[0] == 2
    assert (await run("backup", "-"))[0] == 2
    assert (await run("restore", str(tmp_path / "b"), "--confirm", "links"))[0] == 2


async def test_the_archive_comes_back(
    world: World, server_url: str, run: Run, tmp_path: Path
) -> None:
    """With its segments the audit verifies; a folder with others is left alone."""
    folder = tmp_path / "archive" / world.store.keys.namespace
    client = connect(server_url)
    store = RedisStore(client, world.store.keys, archive=Archive(folder))
    for number in range(3):
        await world.submit(arguments={"n": number})
        await Sealer(store, world.feed).seal_all()
        await Archiver(store, Trimming(store), AT_ONCE).archive_all()
    segments = sorted(folder.iterdir())
    assert segments
    assert (await run("backup", str(tmp_path / "b")))[0] == 0
    total = len([line async for line in export(store)])
    await lose(store)
    Archive(folder).path(77).write_bytes(segments[0].read_bytes())
    code, said = await run("restore", str(tmp_path / "b"))
    assert (code, "segments that are not in the backup: move the folder away" in said) == (10, True)
    assert await everything(store) == {}
    folder.rename(tmp_path / "away")
    code, said = await run("restore", str(tmp_path / "b"))
    assert code == 0, said
    assert [one.name for one in sorted(folder.iterdir())] == [one.name for one in segments]
    lines = [line async for line in export(store)]
    assert verify(lines).ok
    assert len(lines) > total
    await client.aclose()


async def test_a_backup_with_a_lost_segment_is_refused(
    world: World, run: Run, tmp_path: Path
) -> None:
    """The operator decides first, with `gateway archive give-up`."""
    folder = tmp_path / "archive" / world.store.keys.namespace
    store = RedisStore(world.store.redis, world.store.keys, archive=Archive(folder))
    await world.submit()
    await Sealer(store, world.feed).seal_all()
    await Archiver(store, Trimming(store), AT_ONCE).archive_all()
    for one in folder.iterdir():
        one.unlink()
    code, said = await run("backup", str(tmp_path / "b"))
    assert (code != 0, "is missing" in said) == (True, True)
    assert not (tmp_path / "b").exists()
    assert list(tmp_path.glob("*.part")) == []


async def test_a_backup_has_no_secret_answers_and_no_signing_key(
    world: World, run: Run, tmp_path: Path
) -> None:
    """Only the public key, and hashes of tokens."""
    token = (await world.credentials.rotate_agent(AGENT)).token
    await world.store.redis.set(world.store.keys.secret("a" * 32), "the-answer", ex=60)
    await world.send("submit", {"text": "in-the-queue"})
    seed = tmp_path / "data" / "signing.key"
    seed.parent.mkdir()
    seed.write_text("c3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3Nzc3M=")
    await run("backup", str(tmp_path / "b"))
    text = gzip.decompress((tmp_path / "b").read_bytes()).decode()
    for secret in (token, "the-answer", "in-the-queue", seed.read_text()):
        assert secret not in text
    assert json.loads(text.splitlines()[0])["backup"]["public_key"] == world.signer.public_key
