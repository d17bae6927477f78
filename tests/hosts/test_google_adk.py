"""Google's Agent Development Kit itself, as it is published, with a model by its own classes."""

from __future__ import annotations

import pytest

from tests.hosts.framework_suite import BatchSuite

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]


class TestGoogleAdk(BatchSuite):
    """A callback of the agent."""

    name = "google_adk"
    framework = "google-adk 2.13.0"
