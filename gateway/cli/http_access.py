"""Connect approvers' commands to the gateway: over HTTP, with the caller's own token."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gateway.cli.listed_requests import find_listed
from gateway.client.http_connection import HttpPool
from gateway.errors import InvalidRequest, NotFound, Unauthorized, Unreachable
from gateway.wire.local_discovery import (
    FILE_NAME,
    OWNER_FILE,
    choose_url,
    is_same_address,
    read_private,
    secret,
    state_folder,
)

ID_LENGTH = 32
_PAGE = 200  # requests at a time


def connect_as_approver(*, acting: bool = False) -> HttpPool:
    """Return a connection with the caller's approver token. Without one, use the token of the local
    owner, which is sent only to the local gateway. With `acting`, print the gateway's address on
    standard error."""
    folder = Path(state_folder())
    url = choose_url(
        folder,
        os.environ.get("GATEWAY_URL"),
        os.environ.get("GATEWAY_PUBLIC_URL"),
        redis_url=secret("REDIS_URL"),
        namespace=os.environ.get("GATEWAY_NAMESPACE") or None,
        production=os.environ.get("GATEWAY_ENV") == "production",
    )
    token = secret("GATEWAY_APPROVER_TOKEN")
    if not token and url:
        announced = (read_private(folder / FILE_NAME) or {}).get("url")
        if announced and is_same_address(url, announced):
            token = (read_private(folder / OWNER_FILE) or {}).get("token")
    if not url:
        raise Unreachable(
            f"you run no gateway with the data folder {folder}: start `gateway up`, or set "
            f"GATEWAY_DATA_DIR to the folder of a running gateway, or GATEWAY_URL to its address"
        )
    if not token:
        raise Unauthorized(
            "set GATEWAY_APPROVER_TOKEN to the token that `gateway approver add NAME` prints"
        )
    if acting:
        say_where(url)
    return HttpPool(url, token)


def say_where(address: str) -> None:
    """Print on standard error the address of the gateway that a command changes."""
    print(f"gateway: acting on {address}", file=sys.stderr)


def find_request(http: HttpPool, wanted: str) -> dict[str, Any]:
    """Find a request by its id, or by the start of its id, with pending requests first. A number
    means the row in the list that was printed last."""
    wanted = find_listed(http, wanted).partition("@")[0]
    if len(wanted) == ID_LENGTH:
        found: dict[str, Any] = http.call("GET", f"/v1/requests/{wanted}")
        return found
    for records in (read_all(http, "status=pending"), islice(read_all(http, "final=true"), _PAGE)):
        matches = [one for one in records if one["request"]["id"].startswith(wanted)]
        if len(matches) > 1:
            raise InvalidRequest(
                f"{len(matches)} request ids begin with {wanted}; give more characters of the id"
            )
        if matches:
            return matches[0]
    raise NotFound(
        f"no request id begins with {wanted} among the pending requests (`gateway pending`) and "
        f"the last {_PAGE} others (`gateway history`); for an older request, give the whole id"
    )


def read_all(http: HttpPool, which: str) -> Iterator[dict[str, Any]]:
    """Yield all requests that match a query, read page by page."""
    after: str | None = ""
    while after is not None:
        page, after = read_page(http, which, after, _PAGE)
        yield from page


def read_page(
    http: HttpPool, which: str, after: str, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Return at most `limit` requests that match a query, from a cursor on. Also return the cursor
    of the next page, or None after the last page."""
    found: list[dict[str, Any]] = []
    place: str | None = after
    while place is not None and len(found) < limit:
        behind = f"&after={quote(place)}" if place else ""
        few = min(_PAGE, limit - len(found))
        page = http.call("GET", f"/v1/requests?{which}&limit={few}{behind}")
        found += page["items"]
        place = page.get("next")
    return found, place
