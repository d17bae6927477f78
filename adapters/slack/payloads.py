"""What buttons and modals carry: opaque ids with a version, parsed strictly, nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import NamedTuple

from gateway.ports import MessageRef

PLATFORM = "slack"
_BUTTON = re.compile(r"v1:([0-9a-f]{32}):([0-9]{1,9}):([0-9a-z]{1,64})")
_PLACE = re.compile(
    r"(?P<team>[A-Z0-9]{2,32})/(?P<channel>[A-Z0-9]{2,32})(/(?P<thread>[0-9]{1,12}\.[0-9]{6}))?"
)
NO_COPY = "none"  # stands in buttons that belong to no posted copy


class Malformed(Exception):
    """This was not made by us, or by a version of us that nobody runs any more."""


@dataclass(frozen=True, slots=True)
class SlackButton:
    """Which request, at which revision, on which copy."""

    request_id: str
    revision: int
    copy: str

    def encode(self) -> str:
        """Return the value of a button."""
        return f"v1:{self.request_id}:{self.revision}:{self.copy}"


def read_button(value: object) -> SlackButton:
    """Return what a button carries; raises Malformed."""
    found = _BUTTON.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise Malformed("not a button of ours")
    return SlackButton(found[1], int(found[2]), found[3])


@dataclass(frozen=True, slots=True)
class ModalMetadata:
    """What a modal carries: its request, the copy it was opened from, its page, under which name
    what was typed before is kept, and whether it says that this is high risk."""

    request_id: str
    revision: int
    copy: str
    channel: str = ""
    message: str = ""
    page: int = 0
    kept: str = ""
    high: bool = False

    @property
    def button(self) -> SlackButton:
        """What its buttons carry."""
        return SlackButton(self.request_id, self.revision, self.copy)

    def ref(self, team: str) -> MessageRef | None:
        """Return the copy's place, None where the modal was not opened from a copy."""
        if not self.channel:
            return None
        return build_ref(team, self.channel, self.message)

    def encode(self) -> str:
        """Return the private metadata of a modal."""
        values = {"v": 1, **asdict(self)}
        if not self.high:
            del values["high"]
        return json.dumps(values, separators=(",", ":"))


def read_metadata(metadata: object) -> ModalMetadata:
    """Return what a modal carries; raises Malformed."""
    try:
        values = json.loads(metadata) if isinstance(metadata, str) else None
        if not isinstance(values, dict) or values.pop("v", None) != 1:
            raise Malformed("not a modal of ours")
        form = ModalMetadata(**values)
    except (ValueError, TypeError) as error:
        raise Malformed("not a modal of ours") from error
    read_button(form.button.encode())
    return form


def build_ref(team: str, channel: str, ts: str) -> MessageRef:
    """Return where a message stands; channel ids are not unique across workspaces."""
    return MessageRef(adapter=PLATFORM, channel=f"{team}/{channel}", message=ts)


class SlackPlace(NamedTuple):
    """Where messages go. `thread` is the timestamp of its first message, empty for none."""

    team: str
    channel: str
    thread: str = ""


def read_place(target: str) -> SlackPlace:
    """Return the place of a target, `slack:TEAM/CHANNEL` or `slack:TEAM/CHANNEL/THREAD`, or of a
    reference's channel. Raises Malformed.
    """
    found = _PLACE.fullmatch(target.removeprefix(f"{PLATFORM}:"))
    if found is None:
        raise Malformed(f"{target!r} is not slack:TEAM/CHANNEL")
    return SlackPlace(found["team"], found["channel"], found["thread"] or "")
