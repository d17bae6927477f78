"""A plugin of pytest for gptme's own tests: each begins with the hooks of our plugin registered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.integrations.coding_agents.gptme import Plugin


@pytest.fixture(autouse=True)
def hooked() -> Iterator[None]:
    """Register the hooks as gptme does with the plugin enabled, and take them back."""
    from gptme.hooks import clear_hooks  # noqa: PLC0415 (only gptme has it)

    plugin = Plugin()
    plugin.enabled = True
    plugin.register()
    yield
    clear_hooks()
