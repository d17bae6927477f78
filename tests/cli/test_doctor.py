"""What doctor finds, with the gateway and Redis there or away."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway.approvals.request_writer import FOLLOWUPS
from gateway.doctor import FAIL, OK, WARN, Check, examine, gateway_url
from gateway.domain.audit import GENESIS, seal_events, seal_line
from gateway.domain.policy_document import Escalation, Route
from gateway.domain.records import REVIEWS, AuditEvent
from gateway.domain.store import REROUTING
from gateway.domain.time_and_tasks import SystemClock
from gateway.errors import InvalidRequest, NotFound
from gateway.server.app import Gateway, push_key_of, run_gateway
from gateway.server.connections import Backend, open_backend
from gateway.server.settings import Settings
from gateway.stores.archiver import ArchivePace, Archiver, Trimming
from gateway.stores.audit import Sealer
from gateway.stores.devices import RedisDevices
from gateway.stores.keys import Keys
from gateway.stores.outbox import RedisOutbox
from gateway.wire.local_discovery import FILE_NAME, write_private
from tests.cli.shell import Shell
from tests.cli.test_adapters import forget_toys, install
from tests.devices import push_device
from tests.email.postbox import certify
from tests.ports import free_port
from tests.sweeps import sweep

KIND = """
from gateway.ports import Adapter, report_ok

class Kind(Adapter):
    async def checks(self, called, notes, *, live, trial=None):
        told = [(target, " ".join(who)) for target, who in called.items() if who]
        return [
            ("kind", report_ok("all is well")),
            *((f"kind {target}", report_ok(who)) for target, who in told),
        ]
"""
RUDE = """
from gateway.ports import Adapter

class Rude(Adapter):
    async def checks(self, called, notes, *, live, trial=None):
        raise KeyError("password=open-sesame")
"""
DOCUMENT = Path(__file__).parents[2] / "docs" / "guides" / "troubleshooting.md"


def documented() -> set[str]:
    """Return the names of the checks in the document's table."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    return {line.split("`")[1] for line in lines if line.startswith("| `")}


class Site:
    """A gateway with its engine and settings, and doctor's view of it."""

    def __init__(self, gateway: Gateway, settings: Settings) -> None:
        self.gateway = gateway
        self.settings = settings

    @property
    def redis(self) -> Any:
        return self.gateway.backend.store.redis

    @property
    def keys(self) -> Keys:
        return self.gateway.backend.store.keys

    def open_backend(self) -> AbstractAsyncContextManager[Backend]:
        return open_backend(self.settings, self.gateway.backend.url)

    async def checks(self, **changes: Any) -> dict[str, Check]:
        """Return what doctor finds, by name."""
        settings = self.settings.model_copy(update=changes)
        return {check.name: check for check in await examine(settings, self.open_backend)}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """Run a gateway in which all is well."""
    settings = Settings(data_dir=tmp_path / "data", port=0, adapters=())
    async with run_gateway(settings) as gateway:
        await gateway.backend.credentials.add_approver("ann", admin=True)
        yield Site(gateway, settings)


def test_all_is_well_and_documented(up: Shell) -> None:
    """Beside a gateway that was just started every check of the document is ok."""
    found = [json.loads(line) for line in up.run("doctor", "--json").splitlines()]
    assert {check["name"]: check["result"] for check in found} == dict.fromkeys(documented(), OK)


def test_without_a_gateway_it_says_what_it_can(shell: Shell) -> None:
    """Nothing runs: the checks that need no Redis are made, and Redis is one that failed."""
    found = [json.loads(line) for line in shell.run("doctor", "--json", code=1).splitlines()]
    results = {check["name"]: check["result"] for check in found}
    assert results == {"port": FAIL, "ready": FAIL, "discovery": WARN, "redis": FAIL}
    assert "gateway up" in found[0]["remedy"] + found[3]["says"]


async def test_a_redis_that_dies_fails_its_checks_alone(site: Site) -> None:
    """The gateway's own readiness and Redis are reported; nothing is thrown."""
    url = f"redis://127.0.0.1:{free_port()}"
    found = {
        check.name: check
        for check in await examine(site.settings, lambda: open_backend(site.settings, url))
    }
    assert {name: check.result for name, check in found.items()} == {
        "port": OK,
        "ready": OK,
        "discovery": OK,
        "redis": FAIL,
    }


async def test_a_check_that_cannot_be_made_stops_no_other(site: Site) -> None:
    """Keys of a wrong type, and a user without rights to look, cost their own checks alone."""
    await site.redis.set(site.keys.dead, "no stream")
    found = await site.checks()
    assert found["dead letters"].result == FAIL
    assert found["intake"].result == OK
    rules = ["on", ">p", "~*", "&*", "+@all", "-config|get"]
    await site.redis.execute_command("ACL", "SETUSER", "narrow", *rules)
    url = site.gateway.backend.url.partition("@")[2]
    checks = await examine(
        site.settings, lambda: open_backend(site.settings, f"unix://narrow:p@{url}")
    )
    results = {check.name: check.result for check in checks}
    assert {results[name] for name in ("persistence", "fsync", "default user", "acl")} == {FAIL}
    assert results["approvers"] == OK
    assert set(results) == documented()


async def test_a_newer_namespace_is_named(site: Site) -> None:
    """Redis answers, the schema does not fit."""
    await site.redis.hset(site.keys.meta, "schema", 1000)
    found = await site.checks()
    assert [found[name].result for name in ("redis", "schema")] == [OK, FAIL]


async def test_a_kill_switch_that_was_lost_is_named(site: Site) -> None:
    """With what to run; the next start does not take the namespace for a new one."""
    await site.redis.delete(site.keys.meta)
    found = (await site.checks())["kill switch"]
    assert (found.result, "lost" in found.says) == (FAIL, True)
    assert "gateway resume" in found.remedy


@sweep(
    ("setting", "value", "name", "result"),
    [
        ("appendonly", "no", "persistence", FAIL),
        ("appendfsync", "everysec", "fsync", WARN),
        ("appendfsync", "no", "fsync", FAIL),
        ("maxmemory-policy", "allkeys-lru", "eviction", FAIL),
        ("maxmemory", "0", "memory", WARN),
        ("maxmemory", "1mb", "memory", FAIL),
        ("hash-max-listpack-value", "64", "memory", WARN),
        ("proto-max-bulk-len", "512mb", "message size", WARN),
    ],
    few=3,
)
async def test_what_a_server_must_keep(
    site: Site, setting: str, value: str, name: str, result: str
) -> None:
    """Each of the server's settings has a check of its own."""
    await site.redis.config_set(setting, value)
    found = await site.checks()
    assert found.pop(name).result == result
    assert {check.result for check in found.values()} == {OK}


@pytest.mark.parametrize(("env", "result"), [("development", WARN), ("production", FAIL)])
async def test_an_open_default_user(site: Site, env: str, result: str) -> None:
    """A surprise in development, refused in production; both are told how to close it."""
    await site.redis.execute_command("ACL", "SETUSER", "default", "on", "nopass", "+@all")
    found = (await site.checks(env=env, public_url=site.gateway.url))["default user"]
    assert found.result == result
    assert "default off" in found.remedy


async def test_agents_without_users_and_people_of_whom_nothing_is_known(site: Site) -> None:
    """Tokens and owners are found by name."""
    credentials, store = site.gateway.backend.credentials, site.gateway.backend.store
    made = await credentials.add_agent("ci")
    await site.redis.execute_command("ACL", "DELUSER", made.redis_user)
    await credentials.add_approver("bob")
    await credentials.add_agent("bobs", owner="bob")
    assert (await site.checks())["owners"].result == OK
    policy = await store.policy()
    people = tuple(one for one in policy.people if one.name != "bob")
    await store.apply(replace(policy, people=people), by="test")
    found = await site.checks()
    assert found["acl"].result == FAIL
    assert "ci" in found["acl"].says
    assert found["tokens"].result == WARN
    assert "bob" in found["tokens"].says
    assert found["owners"].result == WARN
    assert "bobs of bob" in found["owners"].says


async def test_an_ingress_key_that_is_no_stream(site: Site) -> None:
    """Is named, so that it can be deleted."""
    await site.gateway.backend.credentials.add_agent("ci")
    await site.redis.set(site.keys.ingress("ci"), "a slip")
    found = (await site.checks())["intake"]
    assert found.result == FAIL
    assert site.keys.ingress("ci") in found.remedy


async def test_cards_that_nobody_posts_or_keeps_true(site: Site) -> None:
    """An adapter that does not run, and a copy that the platform let nobody edit, are named."""
    store = site.gateway.backend.store
    policy = await store.policy()
    routes = tuple(replace(one, targets=("pager:x",)) for one in policy.routes)
    await store.apply(replace(policy, routes=routes), by="test")
    long_ago = SystemClock().now_ms() - 61_000
    await site.redis.zadd(site.keys.dirty("pager"), {"a request": long_ago})
    await store.note("copy_stuck", data={"target": "pager:x"})
    found = await site.checks()
    assert [found[name].result for name in ("outboxes", "cards")] == [WARN, WARN]
    assert "pager" in found["outboxes"].says
    assert "1 copy_stuck" in found["cards"].says


async def test_cards_that_are_not_in_their_conversation(site: Site) -> None:
    """A route that allows none, one without another target, and why cards went elsewhere."""
    store = site.gateway.backend.store
    policy = await store.policy()

    async def says(**changes: Any) -> str:
        routes = tuple(replace(one, agents=("ci",), **changes) for one in policy.routes)
        await store.apply(replace(await store.policy(), routes=routes), by="test")
        found = (await site.checks())["conversations"]
        assert found.result == (OK if found.says.startswith("get cards") else WARN)
        return found.says

    both, place = ("origin", "web"), ("slack:T1/C1",)
    assert "no conversation gets cards on: default" in await says(targets=both)
    assert "are denied on: default" in await says(targets=("origin",), origins=place)
    assert await says(targets=both, origins=place) == "get cards on: default"
    await store.note("undelivered", data={"target": "slack:origin/T1/C1", "why": "is archived"})
    await store.note("undelivered", data={"target": "slack:T1/C2", "why": "something else"})
    await store.note("submitted", data={"origin_refused": "slack:T1/C9 is not in the `origins`"})
    said = await says(targets=both, origins=place)
    assert "1: is archived" in said
    assert "1: slack:T1/C9 is not in the `origins`" in said
    assert "something else" not in said


async def test_queues_that_no_gateway_works_on(site: Site) -> None:
    """Its own as well: a request that waits for its review is seen by nobody. What is marked again
    and again is no younger for it."""
    settings = site.settings.model_copy(update={"namespace": "still"})
    queues = (FOLLOWUPS, REVIEWS, REROUTING)
    async with open_backend(settings, site.gateway.backend.url) as still:
        store = still.store
        for queue in queues:
            await store.redis.zadd(store.keys.dirty(queue), {"x": await store.now() - 61_000})
            await RedisOutbox(store).mark(queue, "x")
    checks = await examine(settings, lambda: open_backend(settings, site.gateway.backend.url))
    (found,) = [check for check in checks if check.name == "outboxes"]
    assert found.result == WARN
    assert all(queue in found.says for queue in queues)


async def test_an_agent_that_asks_nobody(site: Site) -> None:
    """It is named while its pause lasts."""
    until = await site.gateway.backend.store.now() + 60_000
    await site.redis.hset(site.keys.breakers, mapping={"ci": until, "calm": 1})
    found = (await site.checks())["paused agents"]
    assert found.result == WARN
    assert found.says.endswith(": ci")


async def test_devices_that_fail_are_named(site: Site) -> None:
    """What went wrong last, a key that is not theirs, and no key at all where devices wait."""
    devices = RedisDevices(site.gateway.backend.store)
    assert (await site.checks())["push"].result == OK
    key, _ = push_key_of(site.settings)
    assert key is not None
    device = push_device(server_key=key.public)
    await devices.add(device)
    assert (await site.checks())["push"].says.startswith("1 devices")
    await devices.add(replace(device, failure="the push service returned status 403"))
    found = (await site.checks())["push"]
    assert (found.result, "Chrome on Android" in found.says, "403" in found.says) == (
        WARN,
        True,
        True,
    )
    await devices.add(replace(device, server_key="other"))
    assert (await site.checks())["push"].result == FAIL
    found = (await site.checks(redis_url=SecretStr(site.gateway.backend.url)))["push"]
    assert (found.result, "GATEWAY_PUSH_KEY" in found.says) == (FAIL, True)


async def test_live_without_a_chat_says_so(site: Site) -> None:
    """Nothing was tried, which is not the same as all is well."""
    checks = await examine(site.settings, site.open_backend, live=True)
    assert [check.result for check in checks if check.name == "live"] == [WARN]


async def test_an_adapter_that_cannot_be_looked_at_is_named(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Misspelled, not importable, or raising whatever it likes: Redis is not to blame for it."""
    folder = tmp_path / "site"
    install(folder, "broken", "import a_library_that_is_not_installed", {"broken": "broken:Any"})
    install(folder, "rude", RUDE, {"rude": "rude:Rude"})
    install(folder, "kind", KIND, {"kind": "kind:Kind"})
    forget_toys()
    monkeypatch.syspath_prepend(str(folder))
    found = await site.checks(adapters=("slakc", "broken", "rude", "kind"))
    names = ("redis", "adapter slakc", "adapter broken", "adapter rude", "kind")
    assert [found[name].result for name in names] == [OK, FAIL, FAIL, FAIL, OK]
    assert "no adapter 'slakc'" in found["adapter slakc"].says
    assert found["adapter rude"].says.startswith("KeyError: 'password=⟨secret of 11 characters")


async def test_adapters_are_told_whom_their_cards_call(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the routes that call or remind, in each of their places: its own identities and groups."""
    folder = tmp_path / "site"
    install(folder, "kind", KIND, {"kind": "kind:Kind"})
    forget_toys()
    forget_toys()
    monkeypatch.syspath_prepend(str(folder))
    store = site.gateway.backend.store
    policy = await store.policy()
    step = Escalation(after=9, targets=("kind:b",))
    routes = (
        Route(
            approvers=("kind:1/2",), targets=("kind:a", "web"), mention=True, escalations=(step,)
        ),
        Route(approvers=("kind:3", "chat:4"), targets=("kind:a",), remind_after=(5,)),
        Route(approvers=("kind:5",), targets=("kind:c",)),
    )
    await store.apply(replace(policy, routes=routes), by="test")
    found = await site.checks(adapters=("kind",))
    called = {name: one.says for name, one in found.items() if name.startswith("kind ")}
    assert called == {"kind kind:a": "1/2 3", "kind kind:b": "1/2"}


@pytest.mark.parametrize("mode", [0o644, 0o660])
async def test_files_that_others_can_reach(site: Site, mode: int) -> None:
    """The discovery file says where agents ask: nobody else may read or write it."""
    (site.settings.data_dir / FILE_NAME).chmod(mode)
    found = await site.checks()
    assert found["discovery"].result == FAIL
    assert FILE_NAME in found["discovery"].says
    (site.settings.data_dir / FILE_NAME).chmod(0o600)
    site.settings.data_dir.chmod(0o770)
    assert (await site.checks())["discovery"].result == FAIL


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (503, b'{"status":"not ready","problems":["Redis does not respond"]}', "Redis does not"),
        (200, b"<html>", " responds, but the response is not from a gateway"),
        (200, b"[]", "the response is not from a gateway"),
    ],
)
async def test_what_answers_on_the_port(status: int, body: bytes, says: str) -> None:
    """A gateway that is not ready, and something that is no gateway, are told apart."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(f"HTTP/1.0 {status} Said\r\n\r\n".encode() + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        url = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}"
        settings = Settings(public_url=url)
        away = f"redis://127.0.0.1:{free_port()}"
        checks = await examine(settings, lambda: open_backend(settings, away))
    found = {check.name: check for check in checks}
    assert found["ready"].result == FAIL
    assert says in found["ready"].says


async def test_a_certificate_that_nobody_here_trusts_is_named(tmp_path: Path) -> None:
    """The remedy is about trust, not about an address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    context, _ = certify(tmp_path)
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as other:
        url = f"https://localhost:{other.sockets[0].getsockname()[1]}"
        settings = Settings(public_url=url)
        away = f"redis://127.0.0.1:{free_port()}"
        checks = await examine(settings, lambda: open_backend(settings, away))
    found = {check.name: check for check in checks}["ready"]
    assert found.result == FAIL
    assert "self-signed certificate" in found.says
    assert "SSL_CERT_FILE" in found.remedy


def test_the_running_gateways_address_comes_first(tmp_path: Path) -> None:
    """A public URL, else what is announced by this user's gateway, else the settings."""
    settings = Settings(data_dir=tmp_path, port=0)
    with pytest.raises(NotFound, match="GATEWAY_PUBLIC_URL"):
        gateway_url(settings)
    fixed = settings.model_copy(update={"port": 8787, "tls_cert": Path("cert.pem")})
    assert gateway_url(fixed) == "https://127.0.0.1:8787"
    write_private(tmp_path / FILE_NAME, json.dumps({"url": "https://127.0.0.1:4000"}))
    assert gateway_url(fixed) == "https://127.0.0.1:4000"
    assert gateway_url(fixed.model_copy(update={"env": "production"})) == "https://127.0.0.1:8787"
    (tmp_path / FILE_NAME).chmod(0o666)
    with pytest.raises(InvalidRequest, match="open to other users"):
        gateway_url(fixed)
    public = fixed.model_copy(update={"public_url": "https://ask.example/"})
    assert gateway_url(public) == "https://ask.example"


@sweep(
    ("text", "result", "says"),
    [
        ("", WARN, "not enabled"),
        ("[plugin.approval_gateway]\nenabled = false\n", WARN, "not enabled"),
        ("[plugin.approval_gateway]\nenabled = true\n", OK, "enabled"),
        ('[plugin]\napproval_gateway = "on"\n', OK, "enabled"),
        ('[plugins]\nenabled = ["x"]\n[plugin.approval_gateway]\nenabled = true\n', WARN, "list"),
        ("plugin = [", WARN, "cannot be read"),
    ],
    few=2,
)
async def test_doctor_says_whether_gptme_asks(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, result: str, says: str
) -> None:
    """Installed is not enabled; without settings of gptme nothing is said of it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "gptme" not in await site.checks()
    settings = tmp_path / ".config" / "gptme" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(text)
    found = (await site.checks())["gptme"]
    assert found.result == result
    assert says in found.says


@pytest.mark.parametrize(
    ("days", "fits"), [(90, "9,400"), (30, "28,000"), (900, "940")], ids=["90", "30", "900"]
)
async def test_the_memory_is_told_in_requests_a_day(site: Site, days: float, fits: str) -> None:
    """Of the smallest server, by how long requests are kept."""
    await site.redis.config_set("maxmemory", "1gb")
    says = (await site.checks(retention_days=days))["memory"].says
    assert f"room for {fits} small requests a day for {days} days" in says


async def test_the_archives_folder_is_looked_at(site: Site, tmp_path: Path) -> None:
    """Named, the one that Redis knows, not gone past by a Redis that forgot, up to date."""
    store = site.gateway.backend.store
    assert store.archive is not None
    redis, keys = site.redis, site.keys

    async def found(**changes: Any) -> Check:
        named = Site(site.gateway, site.settings.model_copy(update=changes))
        return (await named.checks())["archive"]

    elsewhere = SecretStr(site.gateway.backend.url)
    assert (await found()).result == OK
    assert (await found(redis_url=elsewhere)).result == WARN
    await Sealer(store, site.gateway.core.feed).seal_all()
    await redis.delete(keys.of("archive", "claim"))  # the running gateway has it
    assert await Archiver(
        store, Trimming(store), ArchivePace(settled_ms=-99, longest_ms=0)
    ).archive_all()
    assert (await found()).says.startswith("1 segments")
    assert (await found(redis_url=elsewhere)).result == FAIL
    other = await found(archive=tmp_path / "other")
    assert (other.result, "1 of 1 segments are missing or damaged" in other.says) == (FAIL, True)
    assert "gateway archive give-up" in other.remedy
    mark = await redis.hget(keys.meta, "archived")
    await redis.hdel(keys.meta, "archived")
    await redis.delete(keys.seals)
    assert "backwards" in (await found()).says
    await redis.hset(keys.meta, "archived", mark)
    await redis.delete(keys.seals)
    last = seal_line(seal_events([AuditEvent(id="1-1", type="x", at=1)], GENESIS))
    await redis.xadd(keys.seals, {"seal": json.dumps(json.loads(last)["seal"])}, id="1-1")
    assert "two hours" in (await found()).says


async def test_a_folder_without_hard_links_is_told_of(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that cannot be written to: an archive there would never be made."""
    store = site.gateway.backend.store
    assert store.archive is not None
    await asyncio.to_thread(store.archive.folder.mkdir, parents=True)

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    found = (await site.checks())["archive"]
    assert (found.result, "cannot write to" in found.says) == (FAIL, True)
