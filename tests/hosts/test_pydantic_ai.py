"""Pydantic AI itself, as it is published, with its own function model."""

from __future__ import annotations

import pytest

from tests.hosts.framework_suite import PausingSuite

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]


class TestPydanticAi(PausingSuite):
    """Deferred tools, within the run and paused."""

    name = "pydantic_ai"
    framework = "pydantic-ai-slim 2.68.0"
