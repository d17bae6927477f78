"""Write a namespace and its archive to one file (`write_backup`), and load it (`load_backup`).

A backup is a gzip file with one JSON object per line: a head, keys, parts of streams, archive
segments. The last line has the number and the SHA-256 of the other lines. Signing key, secret
answers, agents' queues, leases and locks are left out.
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
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.domain.records import SCHEMA_VERSION, place_of
from gateway.errors import Conflict, InvalidRequest
from gateway.policy.grants.grant import Effect, Grant, Outdated
from gateway.stores.archive_folder import ArchiveCursor
from gateway.stores.credentials import AGENT, remove
from gateway.stores.record_codec import body_of_grant
from gateway.stores.requests import RedisStore
from gateway.wire.canonical_json import sha256_hex
from gateway.wire.codec import JsonObject, build

FORMAT = 1
RESTORED = "it was restored from a backup, and `gateway restore --confirm grants` was not run"
AGENTS, SIGN_INS, LINKS = "agents", "sign-ins", "links"
_HELD = {
    **dict.fromkeys(("browser:", "devices:", "passkeys:", "passkey-counts:", "push:"), SIGN_INS),
    **dict.fromkeys(("login:", "links:", "claims"), LINKS),
    "aap:": AGENTS,
}
"""Prefixes of logins that may have ended since the backup. An admin confirms each kind."""
_LEFT_OUT = (
    *("in:", "out:", "waiting:", "shard:", "changing:", "secret:", "challenge:", "archive:claim"),
    *("webhooks:claim", "processes", "replicas", "owners", "attempts", "probe", "control"),
    *("member:", "member-turn:"),
)
_CREDENTIALS, _META, _EVENTS, _NO_ENTRY = "credentials", "meta", "events", "0-0"
_PAGE, _TRIES, _NEW = 500, 3, os.O_WRONLY | os.O_CREAT | os.O_EXCL
_BROKEN = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, IndexError)

# `row` returns name, type, expiry and value of a key. Of the streams that only grow, the value is
# the length and the last ID; their entries are read afterwards.
_ROW = """
local commands = {string = {'GET'}, hash = {'HGETALL'}, set = {'SMEMBERS'},
  zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, stream = {'XRANGE', '-', '+'}}
local rows = {}
local function row(name)
  local key = ARGV[1] .. name
  local kind = redis.call('TYPE', key).ok
  local command, value = commands[kind], nil
  if name == 'events' or name == 'seals' then
    local told = redis.call('XINFO', 'STREAM', key)
    for i = 1, #told, 2 do
      if told[i] == 'last-generated-id' then value = {redis.call('XLEN', key), told[i + 1]} end
    end
  elseif command then
    value = redis.call(command[1], key, unpack(command, 2))
  end
  if value then rows[#rows + 1] = {name, kind, redis.call('PEXPIRETIME', key), value} end
end
"""
# ARGV 1 the prefix of all keys, then names.
_READ_SOME = _ROW + "for i = 2, #ARGV do row(ARGV[i]) end return rows"
# The consistent point: all keys at one moment, but requests that ended before the event ARGV 2 and
# did not change since. ARGV 3 on are prefixes of keys to leave out.
_READ_ALL = (
    _ROW
    + """
local live, cursor, seen = {}, '0', {}
for _, id in ipairs(redis.call('ZRANGE', ARGV[1] .. 'pending', 0, -1)) do live[id] = true end
for _, entry in ipairs(redis.call('XRANGE', ARGV[1] .. 'events', ARGV[2], '+')) do
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'id' then live[entry[2][i + 1]] = true end
  end
end
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1] .. '*', 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    local name = string.sub(key, #ARGV[1] + 1)
    local id = string.match(name, '^req:(.*)') or string.match(name, '^copies:(%x+)$')
    local wanted = not seen[name] and (not id or #id ~= 32 or live[id])
    for i = 3, #ARGV do wanted = wanted and string.sub(name, 1, #ARGV[i]) ~= ARGV[i] end
    seen[name] = seen[name] or wanted
    if wanted and name == 'done' then
      for one in pairs(live) do
        local at = redis.call('ZSCORE', key, one)
        if at then rows[#rows + 1] = {name, 'zset', -1, {one, at}} end
      end
    elseif wanted then
      row(name)
    end
  end
until cursor == '0'
return rows
"""
)


class _Moved(Exception):
    """Events moved from Redis to the archive while they were read."""


async def write_backup(store: RedisStore, path: Path, head: JsonObject) -> int:
    """Write the namespace to a file that only this user can read. Return its number of lines.

    An existing file is replaced only when the new one is complete. Raises Conflict if events moved
    to the archive during each try, and ArchiveProblem if a part of the archive cannot be read.
    """
    for _ in range(_TRIES):
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        digest, count = hashlib.sha256(), 0
        try:
            with os.fdopen(os.open(part, _NEW, 0o600), "wb") as raw:
                with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6) as file:
                    async for line in _lines(store, head):
                        text = json.dumps(line).encode() + b"\n"
                        digest.update(text)
                        file.write(text)
                        count += 1
                    file.write(json.dumps({"end": [count, digest.hexdigest()]}).encode() + b"\n")
                raw.flush()
                os.fsync(raw.fileno())
            part.replace(path)
        except _Moved:
            continue
        finally:
            part.unlink(missing_ok=True)
        return count
    raise Conflict("events moved to the archive during each try; run the command again")


async def _lines(store: RedisStore, head: JsonObject) -> AsyncIterator[JsonObject]:
    redis, keys = store.redis, store.keys
    yield {"backup": {"format": FORMAT, "schema": SCHEMA_VERSION, **head}}
    # Most requests have ended. They are read before the consistent point, so that Redis pauses
    # shortly; an event says which of them changed meanwhile.
    last = await redis.xrevrange(keys.events, count=1)
    done = [one async for one in redis.zscan_iter(keys.done, count=_PAGE)]
    for first in range(0, len(done), _PAGE):
        page = done[first : first + _PAGE]
        names = [f"{kind}:{one}" for kind in ("req", "copies") for one, _ in page]
        rows = await redis.eval(_READ_SOME, 1, keys.meta, keys.of(""), *names)
        kept = {row[0] for row in rows}  # retention may have dropped some meanwhile
        pairs = [(one, f"{at:.0f}") for one, at in page if f"req:{one}" in kept]
        for row in [["done", "zset", -1, [part for pair in pairs for part in pair]], *rows]:
            yield {"key": row}
    since = last[0][0] if last else _NO_ENTRY
    rows = await redis.eval(_READ_ALL, 1, keys.meta, keys.of(""), since, *_LEFT_OUT)
    for row in rows:
        yield {"key": row}
    meta: dict[str, str] = next((_pairs(row[3]) for row in rows if row[0] == _META), {})
    cursor = ArchiveCursor.parse(meta.get("archived"))
    if last and place_of(cursor.last) > place_of(since):
        raise _Moved
    for name, _, _, value in (row for row in rows if row[0] in (_EVENTS, "seals")):
        count, start = 0, "-"
        while entries := await redis.xrange(keys.of(name), start, value[1], count=_PAGE):
            yield {"stream": [name, entries]}
            count, start = count + len(entries), f"({entries[-1][0]}"
        if count != value[0]:
            raise _Moved
    for number in cursor.segments:
        archive = store.audit.need_archive()
        archive.read(number)  # raises an error if it is damaged
        content = archive.path(number).read_bytes()
        yield {"segment": [number, base64.b64encode(content).decode()]}


def _pairs(flat: list[str]) -> dict[str, str]:
    """Return alternating names and values as a mapping."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


class BackupFile:
    """A backup to restore. The whole file is checked first; raises InvalidRequest if it is
    damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.segments: dict[int, str] = {}
        """The SHA-256 of each archive segment, by number."""
        why = "is not a backup of an approval gateway"
        try:
            with gzip.open(path) as file:
                self.head: dict[str, Any] = dict(json.loads(file.readline(65_536))["backup"])
            _ = [self.head[one] for one in ("version", "namespace", "made", "public_key")]
            if (self.head["format"], self.head["schema"]) == (FORMAT, SCHEMA_VERSION):
                why = "is damaged or incomplete, so nothing was changed"
                for kind, value in self.lines():
                    if kind == "segment":
                        self.segments[value[0]] = sha256_hex(base64.b64decode(value[1]))
                return
        except _BROKEN as error:
            raise InvalidRequest(f'"{path}" {why}: {error}') from error
        raise InvalidRequest(
            f'"{path}" has format {self.head["format"]} and schema {self.head["schema"]}, not '
            f"{FORMAT} and {SCHEMA_VERSION}: use version {self.head['version']} of the gateway"
        )

    def lines(self) -> Iterator[tuple[str, Any]]:
        """Yield kind and value of each line except the first and the last. Raises ValueError at the
        end if the file was changed or damaged."""
        digest, count = hashlib.sha256(), 0
        with gzip.open(self._path) as file:
            for text in file:
                ((kind, value),) = json.loads(text).items()
                if kind == "end":
                    if value != [count, digest.hexdigest()] or file.read(1):
                        raise ValueError("its checksum does not match")
                    return
                digest.update(text)
                count += 1
                if count > 1:
                    yield kind, value
        raise ValueError("its end is missing")


async def load_backup(store: RedisStore, backup: BackupFile) -> None:
    """Load a backup into an empty namespace, with the kill switch on. Approving grants become
    suspended; tokens, sign-ins and links do not work until `confirm_held`.

    After an interruption, call it again; it starts from the beginning. No gateway opens the
    namespace until the caller deletes the key `restoring`. Raises Conflict if the namespace or
    archive folder is in use.
    """
    redis, keys = store.redis, store.keys
    archive = store.audit.need_archive() if backup.segments else store.archive
    if archive and archive.list_digests().items() - backup.segments.items():
        raise Conflict(
            f'"{archive.folder}" has segments that are not in the backup: move the folder away'
        )
    fresh = await redis.set(keys.restoring, backup.head["version"], nx=True)
    names = [one for one in await _list_names(store) if keys.of(one) != keys.restoring]
    if fresh and names:
        await redis.delete(keys.restoring)
        raise Conflict(
            f'the namespace "{keys.namespace}" has {len(names)} keys: stop the gateways and '
            "restore into an empty namespace or data folder"
        )
    for name in names:
        await redis.unlink(keys.of(name))
    now, held_until_end = await store.now(), dict[str, Any]()
    for kind, value in backup.lines():
        if kind == "key" and value[0] in (_META, _EVENTS, "seals"):
            held_until_end[value[0]] = value[3]
        elif kind == "key":
            await _load_key(store, value, now)
        elif kind == "stream":
            await _write(redis, keys.of(value[0]), "stream", value[1])
        else:
            store.audit.need_archive().put(value[0], base64.b64decode(value[1]))
    meta = _pairs(held_until_end.pop(_META, []))
    for name, (_, last) in held_until_end.items():
        await _reach(redis, keys.of(name), last)
    meta["stopped"] = held_until_end.get(_EVENTS, [0, _NO_ENTRY])[1]
    await redis.hset(keys.meta, mapping=meta)


async def _list_names(store: RedisStore) -> list[str]:
    prefix = store.keys.of("")
    pages = store.redis.scan_iter(match=f"{prefix}*", count=_PAGE)
    return [key.removeprefix(prefix) async for key in pages]


async def _reach(redis: Any, key: str, last: str) -> None:
    """Give new entries of a stream higher IDs than those before the backup, even if the stream is
    empty."""
    if last != _NO_ENTRY:
        if not await redis.xlen(key):
            await redis.xadd(key, {"": ""}, id=last)
            await redis.xdel(key, last)
        await redis.execute_command("XSETID", key, last)


async def _load_key(store: RedisStore, row: list[Any], now: int) -> None:
    name, kind, expires, value = row
    if name == _CREDENTIALS:
        await _hold_credentials(store, _pairs(value))
    elif not 0 < expires <= now:
        if name.startswith("grant:"):
            value = _suspended(value, now)
        elif name.startswith(("grants:tool:", "grants:exact:")):
            value = [part for one in _pairs(value).items() if not _approves(one[1]) for part in one]
        held = next((_HELD[one] for one in _HELD if name.startswith(one)), "")
        place = store.keys.of(*(["held", held] if held else []), name)
        if name.startswith(("req:", "copies:")):
            await store.redis.unlink(place)  # it may have been read before the consistent point too
        await _write(store.redis, place, kind, value, expires)


async def _hold_credentials(store: RedisStore, rows: dict[str, str]) -> None:
    """Make all tokens ineffective for now, and remove agents' Redis users that the server may still
    have."""
    for key_id, text in rows.items():
        entry = json.loads(text)
        kind = AGENTS if entry["kind"] == AGENT else SIGN_INS
        await store.redis.hset(store.keys.of("held", kind, _CREDENTIALS), key_id, text)
        if kind == AGENTS:
            await remove(store.redis, store.keys, entry["name"])


async def _write(redis: Any, key: str, kind: str, value: Any, expires: int = -1) -> None:
    pipeline = redis.pipeline(transaction=False)
    if kind == "stream":
        for entry, fields in value:
            pipeline.xadd(key, fields if isinstance(fields, dict) else _pairs(fields), id=entry)
    else:
        if kind == "zset":  # is read as members with scores, and written as scores with members
            value = [value[i ^ 1] for i in range(len(value))]
        command = {"string": "SET", "hash": "HSET", "set": "SADD", "zset": "ZADD"}[kind]
        parts = [value] if kind == "string" else value
        for start in range(0, len(parts), _PAGE):
            pipeline.execute_command(command, key, *parts[start : start + _PAGE])
    if expires > 0:
        pipeline.pexpireat(key, expires)
    await pipeline.execute()


def _approves(body: str) -> bool:
    """Return whether a stored grant approves calls."""
    return body.startswith("{") and build(Grant, json.loads(body)).effect is Effect.ALLOW


def _suspended(flat: list[str], now: int) -> list[str]:
    """Return the fields of a grant. If the grant approves calls, it becomes suspended."""
    fields = _pairs(flat)
    if _approves(fields.get("body", "")):
        grant = build(Grant, json.loads(fields["body"]))
        outdated = grant.outdated or Outdated(why=RESTORED, at=now)
        fields["body"] = body_of_grant(replace(grant, outdated=outdated))
    return [part for one in fields.items() for part in one]


async def list_held_agents(store: RedisStore) -> dict[str, list[str]]:
    """Return the agents whose tokens are held, with the SHA-256 of their valid Redis passwords.
    Agents that were added again are left out."""
    found, now, taken = dict[str, list[str]](), await store.now(), await _list_taken(store)
    for text in await store.redis.hvals(store.keys.of("held", AGENTS, _CREDENTIALS)):
        entry = json.loads(text)
        if (AGENT, entry["name"]) not in taken and entry.get("until", now + 1) > now:
            found.setdefault(entry["name"], []).extend(filter(None, [entry.get("redis")]))
    return found


async def _list_taken(store: RedisStore) -> set[tuple[str, str]]:
    """Return kind and owner's name of all effective tokens."""
    rows = map(json.loads, await store.redis.hvals(store.keys.credentials))
    return {(one["kind"], one["name"]) for one in rows}


async def confirm_held(store: RedisStore, kind: str) -> int:
    """Make the held keys of a kind effective again. Return how many there were. A newer key is not
    replaced.

    Before you call it, create the Redis users of the agents in `list_held_agents`.
    """
    redis, keys, prefix = store.redis, store.keys, f"held:{kind}:"
    held = [name for name in await _list_names(store) if name.startswith(prefix)]
    for name in held:
        place = keys.of(name.removeprefix(prefix))
        if place == keys.credentials:
            taken = await _list_taken(store)
            for key_id, text in (await redis.hgetall(keys.of(name))).items():
                entry = json.loads(text)
                if (entry["kind"], entry["name"]) not in taken:
                    await redis.hsetnx(place, key_id, text)
        else:
            await redis.renamenx(keys.of(name), place)
        await redis.unlink(keys.of(name))
    return len(held)
