"""Write a namespace and its archive to one file (`write_backup`), and load it (`load_backup`).

A backup is gzip with a JSON object on each line: a head, keys and archive segments, and a last line
with the number and SHA-256 of the others. It has no signing key, no secret answers to forms, and
none of the queues, leases and locks that agents and gateways create again.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import secrets
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, cast

from gateway.domain.records import SCHEMA_VERSION
from gateway.errors import Conflict, GatewayError, InvalidRequest
from gateway.policy.grants.grant import Effect, Grant, Outdated
from gateway.stores.archive_folder import ArchiveCursor
from gateway.stores.credentials import AGENT, remove
from gateway.stores.record_codec import body_of_grant
from gateway.stores.requests import RedisStore
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.codec import JsonObject, Wire, build, plain

FORMAT = 1
RESTORED = "it was restored from a backup, and `gateway restore --confirm grants` was not run"
AGENTS, SIGN_INS, LINKS = "agents", "sign-ins", "links"
HELD = "held:"
_HELD_PREFIXES = {
    **dict.fromkeys(("browser:", "devices:", "passkeys:", "passkey-counts:", "push:"), SIGN_INS),
    **dict.fromkeys(("login:", "links:", "claims"), LINKS),
    "aap:": AGENTS,
}
"""Keys of logins that may have ended since the backup, and the kind that an admin confirms."""
_LEFT_OUT = (
    *("in:", "out:", "waiting:", "shard:", "changing:", "secret:", "challenge:", "archive:claim"),
    *("webhooks:claim", "processes", "replicas", "owners", "attempts", "probe", "control"),
)
_PAGED = ("events", "seals")
_CREDENTIALS, _META = "credentials", "meta"
_PAGE, _TRIES = 1000, 3
_NO_ENTRY = "0-0"
_SHAPES = ({"key", "type", "expires", "value"}, {"stream", "entries"}, {"segment", "data"})
_BROKEN = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, InvalidRequest)

_NAMES = """
local found, cursor = {}, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1] .. '*', 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do found[key] = true end
until cursor == '0'
local names = {}
for key in pairs(found) do names[#names + 1] = string.sub(key, #ARGV[1] + 1) end
"""
# Atomic: all keys are of one moment. Of `events` and `seals`, which only grow, it returns the
# length and last ID; their entries are read afterwards. ARGV 1 is the prefix of all keys; the
# others are prefixes of keys to leave out.
_READ = (
    _NAMES
    + """
local read = {
  string = function(key) return redis.call('GET', key) end,
  hash = function(key) return redis.call('HGETALL', key) end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  stream = function(key) return redis.call('XRANGE', key, '-', '+') end,
}
local keys = {}
for _, name in ipairs(names) do
  local kept = true
  for i = 2, #ARGV do
    if string.sub(name, 1, #ARGV[i]) == ARGV[i] then kept = false end
  end
  local key = ARGV[1] .. name
  local kind = kept and redis.call('TYPE', key).ok
  if kind and read[kind] then
    local value
    if name == 'events' or name == 'seals' then
      local told = redis.call('XINFO', 'STREAM', key)
      for i = 1, #told, 2 do
        if told[i] == 'last-generated-id' then value = {redis.call('XLEN', key), told[i + 1]} end
      end
    else
      value = read[kind](key)
    end
    keys[#keys + 1] = {name, kind, redis.call('PEXPIRETIME', key), value}
  end
end
return keys
"""
)


class BadBackup(GatewayError):
    """The file is not a backup that this version can restore. Nothing was changed."""

    code = "bad_backup"
    exit_code = 2


class _Moved(Exception):
    """Events left Redis while they were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupHead(Wire):
    """The first line of a backup. Agents verify earlier decisions with `public_key`, if known."""

    format: int
    schema: int
    namespace: str
    version: str
    made: int
    public_key: str = ""


class _Writer:
    """Writes lines, and at the end their number and digest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._digest, self.count = file, hashlib.sha256(), 0

    def line(self, value: JsonObject) -> None:
        """Write one line."""
        raw = json.dumps(value).encode() + b"\n"
        self._digest.update(raw)
        self._file.write(raw)
        self.count += 1

    def end(self) -> None:
        """Write the last line."""
        told = {"lines": self.count, "sha256": self._digest.hexdigest()}
        self._file.write(json.dumps({"end": told}).encode() + b"\n")


async def write_backup(store: RedisStore, path: Path, head: BackupHead) -> int:
    """Write the namespace to a file that only this user can read. Return its number of lines.

    An existing file is replaced only when the new one is complete. Raises Conflict if events left
    Redis during each try, ArchiveProblem if a part of the archive cannot be read.
    """
    for _ in range(_TRIES):
        try:
            with _new_file(path) as file:
                writer = _Writer(file)
                writer.line({"backup": plain(head)})
                await _write_body(store, writer)
                writer.end()
        except _Moved:
            continue
        return writer.count
    raise Conflict("events moved to the archive during each try; run the command again")


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a part file; move it to `path` if the block succeeds."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
                yield cast("IO[bytes]", packed)
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


async def _write_body(store: RedisStore, writer: _Writer) -> None:
    keys, cursor = store.keys, ArchiveCursor()
    rows = await store.redis.eval(_READ, 1, keys.meta, keys.of(""), *_LEFT_OUT)
    for name, kind, expires, value in rows:
        writer.line({"key": name, "type": kind, "expires": expires, "value": value})
        if name == _META:
            cursor = ArchiveCursor.parse(_pairs(value).get("archived"))
    for name, kind, _, value in rows:
        if name in _PAGED and kind == "stream":
            count, last = value
            async for entries in _pages(store, keys.of(name), last):
                writer.line({"stream": name, "entries": entries})
                count -= len(entries)
            if count:
                raise _Moved
    for number in cursor.segments:
        archive = store.audit.need_archive()
        archive.read(number)
        data = base64.b64encode(archive.path(number).read_bytes()).decode()
        writer.line({"segment": number, "data": data})


async def _pages(store: RedisStore, key: str, last: str) -> AsyncIterator[list[Any]]:
    start = "-"
    while rows := await store.redis.xrange(key, start, last, count=_PAGE):
        yield [[entry, fields] for entry, fields in rows]
        start = f"({rows[-1][0]}"


def _pairs(flat: list[str]) -> dict[str, str]:
    """Return alternating names and values as a mapping."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


class BackupFile:
    """A backup to restore. Reads and checks the whole file first; raises BadBackup."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.segments: dict[int, str] = {}
        """The SHA-256 of each archive segment, by number."""
        try:
            raw = self._first()
        except _BROKEN as error:
            raise BadBackup(f'"{path}" is not a backup of an approval gateway: {error}') from error
        if raw.get("format") != FORMAT or raw.get("schema") != SCHEMA_VERSION:
            raise BadBackup(
                f'"{path}" was written by version {raw.get("version")} with format '
                f"{raw.get('format')} and schema {raw.get('schema')}; this version restores only "
                f"format {FORMAT} and schema {SCHEMA_VERSION}: use the version that wrote it"
            )
        try:
            self.head: BackupHead = build(BackupHead, raw)
            for line in self.lines():
                if "segment" in line:
                    content = base64.b64decode(line["data"], validate=True)
                    self.segments[int(line["segment"])] = sha256_hex(content)
        except _BROKEN as error:
            raise BadBackup(
                f'"{path}" is damaged or incomplete: {error}. Nothing was changed; use another '
                "backup"
            ) from error

    def _first(self) -> JsonObject:
        with gzip.open(self._path) as file:
            head = json.loads(file.readline(65_536))["backup"]
        if not isinstance(head, dict):
            raise TypeError("its first line is not a head")
        return head

    def lines(self) -> Iterator[JsonObject]:
        """Yield the lines between the first and the last. Raises ValueError at the end if they
        differ from those that were written."""
        digest, count = hashlib.sha256(), 0
        with gzip.open(self._path) as file:
            for raw in file:
                line = json.loads(raw)
                if "end" in line:
                    told = {"lines": count, "sha256": digest.hexdigest()}
                    if line["end"] != told or file.read(1):
                        raise ValueError("its checksum does not match")
                    return
                digest.update(raw)
                count += 1
                if count > 1:
                    if line.keys() not in _SHAPES:
                        raise ValueError(f"line {count} has unknown members")
                    yield line
        raise ValueError("its end is missing")


@dataclass(slots=True)
class _Loaded:
    """What is set last: `meta`, and the IDs that streams have reached."""

    meta: dict[str, str] = field(default_factory=dict)
    reached: dict[str, str] = field(default_factory=dict)


async def load_backup(store: RedisStore, backup: BackupFile) -> None:
    """Load a backup into an empty namespace, with the kill switch on. Approving grants become
    suspended. Tokens, sign-ins and links are held back until `confirm_held`.

    After an interruption, call it again: it starts over. Until `finish_load` no gateway opens the
    namespace. Raises Conflict if the namespace or the archive folder is in use.
    """
    _check_folder(store, backup)
    redis, keys = store.redis, store.keys
    if not await redis.set(keys.restoring, backup.head.made, nx=True):
        await _delete_all(store)
    elif len(names := await _list_names(store)) > 1:
        await redis.delete(keys.restoring)
        raise Conflict(
            f'the namespace "{keys.namespace}" has {len(names) - 1} keys: stop the gateways and '
            "restore into an empty namespace or data folder"
        )
    loaded, now = _Loaded(), await store.now()
    for line in backup.lines():
        if "key" in line:
            await _load_key(store, line, loaded, now)
        elif "entries" in line:
            pipeline = redis.pipeline(transaction=False)
            for entry, fields in line["entries"]:
                pipeline.xadd(keys.of(line["stream"]), fields, id=entry)
            await pipeline.execute()
        else:
            _load_segment(store, int(line["segment"]), base64.b64decode(line["data"]))
    for name, last in loaded.reached.items():
        await _reach(redis, keys.of(name), last)
    meta = loaded.meta | {"stopped": loaded.reached.get("events", _NO_ENTRY)}
    meta["generation"] = str(int(meta.get("generation", "0")) + 1)
    await redis.hset(keys.meta, mapping=meta)


async def finish_load(store: RedisStore) -> None:
    """Allow gateways to open a restored namespace."""
    await store.redis.delete(store.keys.restoring)


def _check_folder(store: RedisStore, backup: BackupFile) -> None:
    """Raise Conflict if the archive folder has segments that are not in the backup."""
    if not backup.segments and store.archive is None:
        return
    archive = store.audit.need_archive()
    for number in archive.numbers():
        if sha256_hex(archive.path(number).read_bytes()) != backup.segments.get(number):
            raise Conflict(
                f'"{archive.folder}" has the segment {number}, which is not in the backup: move '
                "the folder away"
            )


def _load_segment(store: RedisStore, number: int, content: bytes) -> None:
    archive = store.audit.need_archive()
    archive.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = archive.folder / f".{number}.{secrets.token_hex(8)}.part"
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(archive.path(number))


async def _list_names(store: RedisStore) -> list[str]:
    keys = store.keys
    found = await store.redis.eval(_NAMES + "return names", 1, keys.meta, keys.of(""))
    return list(found)


async def _delete_all(store: RedisStore) -> None:
    """Delete what an interrupted restore loaded."""
    for name in await _list_names(store):
        if store.keys.of(name) != store.keys.restoring:
            await store.redis.unlink(store.keys.of(name))


async def _reach(redis: Any, key: str, last: str) -> None:
    """Make new entries of a stream come after those before the backup, even of an empty one."""
    if last != _NO_ENTRY:
        if not await redis.xlen(key):
            await redis.xadd(key, {"": ""}, id=last)
            await redis.xdel(key, last)
        await redis.execute_command("XSETID", key, last)


async def _load_key(store: RedisStore, line: JsonObject, loaded: _Loaded, now: int) -> None:
    name, kind, value, expires = line["key"], line["type"], line["value"], int(line["expires"])
    if kind == "stream" and name in _PAGED:
        loaded.reached[name] = value[1]
    elif name == _META:
        loaded.meta = _pairs(value)
    elif name == _CREDENTIALS:
        await _hold_credentials(store, _pairs(value))
    elif not 0 < expires <= now:
        if name.startswith("grant:") and kind == "hash":
            value = _suspend(value, now)
        elif name.startswith(("grants:tool:", "grants:exact:")):
            value = [
                part for pair in _pairs(value).items() if not _approves(pair[1]) for part in pair
            ]
        held = next((k for prefix, k in _HELD_PREFIXES.items() if name.startswith(prefix)), "")
        key = store.keys.of(f"{HELD}{held}:{name}" if held else name)
        await _write_value(store.redis, key, kind, value, expires)


async def _hold_credentials(store: RedisStore, rows: dict[str, str]) -> None:
    """Hold all tokens back, and remove the agents' Redis users, which the server may still have."""
    for key_id, row in rows.items():
        entry = json.loads(row)
        kind = AGENTS if entry["kind"] == AGENT else SIGN_INS
        await store.redis.hset(store.keys.of(f"{HELD}{kind}:{_CREDENTIALS}"), key_id, row)
        if kind == AGENTS:
            await remove(store.redis, store.keys, entry["name"])


async def _write_value(redis: Any, key: str, kind: str, value: Any, expires: int) -> None:
    if not value:
        return
    pipeline = redis.pipeline(transaction=False)
    if kind == "string":
        pipeline.set(key, value)
    elif kind == "stream":
        for entry, fields in value:
            pipeline.xadd(key, _pairs(fields), id=entry)
    else:
        command = {"hash": "HSET", "set": "SADD", "zset": "ZADD"}[kind]
        parts = value if kind != "zset" else [p for s in _swapped(value) for p in s]
        for start in range(0, len(parts), _PAGE):
            pipeline.execute_command(command, key, *parts[start : start + _PAGE])
    if expires > 0:
        pipeline.pexpireat(key, expires)
    await pipeline.execute()


def _swapped(flat: list[str]) -> Iterator[tuple[str, str]]:
    """Yield score and member from alternating members and scores."""
    return zip(flat[1::2], flat[::2], strict=True)


def _approves(body: str) -> bool:
    """Return whether a stored grant approves."""
    return body.startswith("{") and build(Grant, json.loads(body)).effect is Effect.ALLOW


def _suspend(flat: list[str], now: int) -> list[str]:
    """Return the fields of a grant, suspended if it approves."""
    fields = _pairs(flat)
    if _approves(fields.get("body", "")):
        grant = build(Grant, json.loads(fields["body"]))
        if grant.outdated is None:
            grant = replace(grant, outdated=Outdated(why=RESTORED, at=now))
            fields["body"] = body_of_grant(grant)
    return [part for pair in fields.items() for part in pair]


async def confirm_held(store: RedisStore, kind: str) -> int:
    """Make held keys of a kind effective again. Return how many. What exists already wins.

    The Redis users of agents must exist already, see `list_held_agents`.
    """
    prefix = f"{HELD}{kind}:"
    held = [name for name in await _list_names(store) if name.startswith(prefix)]
    for name in held:
        key, place = store.keys.of(name), store.keys.of(name.removeprefix(prefix))
        if place == store.keys.credentials:
            await _confirm_credentials(store, key)
        else:
            await store.redis.renamenx(key, place)
            await store.redis.delete(key)
    return len(held)


async def list_held_agents(store: RedisStore) -> dict[str, list[str]]:
    """Return the held agents with the SHA-256 of their Redis passwords."""
    found: dict[str, list[str]] = {}
    key = store.keys.of(f"{HELD}{AGENTS}:{_CREDENTIALS}")
    for row in (await store.redis.hgetall(key)).values():
        entry = json.loads(row)
        found.setdefault(entry["name"], []).extend(filter(None, [entry.get("redis")]))
    return found


async def _confirm_credentials(store: RedisStore, key: str) -> None:
    redis, place = store.redis, store.keys.credentials
    taken = {(one["kind"], one["name"]) for one in map(json.loads, (await redis.hvals(place)))}
    rows = {
        key_id: row
        for key_id, row in (await redis.hgetall(key)).items()
        if (json.loads(row)["kind"], json.loads(row)["name"]) not in taken
    }
    pipeline = redis.pipeline(transaction=True)
    if rows:
        pipeline.hset(place, mapping=rows)
    pipeline.delete(key)
    await pipeline.execute()
