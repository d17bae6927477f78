"""The adapter API without a chat, and who uses it."""

from __future__ import annotations

import pytest

from gateway.chat.answering import Answering, Press
from gateway.domain.records import StoredRequest
from gateway.models import new_id
from gateway.ports import AdapterApi
from gateway.server.background import adapter_api
from tests.world import World, identity


@pytest.fixture
def api(world: World) -> AdapterApi:
    """Return the API of a chat."""
    return adapter_api("token", world.core, world.store, inbox="https://inbox.example")


@pytest.fixture
def answering(api: AdapterApi) -> Answering:
    """Return what answers in a chat."""
    return Answering(api, "token", lines=30, chars=1500)


def press(record: StoredRequest, who: str = "ann") -> Press:
    """Return the use of a button of this request as it stands."""
    return Press(
        request_id=record.id, revision=record.revision, identity=identity(who), nonce=new_id()
    )
