"""Check web push: its key, and the devices that get notifications."""

from __future__ import annotations

from gateway.ports.adapters import Finding, report_doubt, report_failure, report_ok
from gateway.server.app import NO_KEY, NOT_INSTALLED, push_key_of
from gateway.server.connections import Backend
from gateway.server.settings import Settings
from gateway.server.stored_data_checks import MOST_NAMED
from gateway.stores.devices import RedisDevices

_AGAIN = "turn notifications off and on again on these devices, or give every gateway the same key"
_LOOK = "the inbox page Notifications lists them; their owners can send a test from there"


async def check_push(settings: Settings, backend: Backend) -> Finding:
    """Check the push key and the devices of a namespace."""
    devices = await RedisDevices(backend.store).everybody()
    key, missing = push_key_of(settings)
    if key is None:
        told = f"{len(devices)} devices get no notifications: {missing}" if devices else missing
        remedies = {NOT_INSTALLED: "install it", NO_KEY: "set GATEWAY_PUSH_KEY"}
        remedy = remedies.get(missing, "start the gateway, which creates a key")
        # Without devices, a missing key is no problem.
        return report_failure(told, remedy) if devices else report_ok(f"off: {missing}")
    if strange := [one for one in devices if one.server_key != key.public]:
        return report_failure(f"{len(strange)} devices were registered with another key", _AGAIN)
    if failing := [one for one in devices if one.failure]:
        named = "; ".join(f"{one.person}, {one.label}: {one.failure}" for one in failing)
        many = len(failing) > MOST_NAMED
        says = f"{len(failing)} of {len(devices)} devices fail" if many else named
        return report_doubt(says, _LOOK)
    return report_ok(f"{len(devices)} devices, and the last push to each succeeded")
