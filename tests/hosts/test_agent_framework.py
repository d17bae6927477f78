"""Microsoft's agent-framework itself, as it is published, with a model by its own classes."""

from __future__ import annotations

import pytest

from tests.hosts.framework_suite import BatchSuite

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]


class TestAgentFramework(BatchSuite):
    """A function middleware of the agent."""

    name = "agent_framework"
    framework = "agent-framework-core 1.23.0"
    aborted = "MiddlewareFailure: denied by ann: stop"
