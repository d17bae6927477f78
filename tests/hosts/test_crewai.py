"""CrewAI itself, as it is published, with a model by its own classes."""

from __future__ import annotations

import pytest

from tests.hosts.framework_suite import BatchSuite

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]


class TestCrewAi(BatchSuite):
    """Hooks of every tool call, and of the model."""

    name = "crewai"
    framework = "crewai 1.15.30"
    aborted = "HookAborted: denied by ann: stop"
