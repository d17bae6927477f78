"""AG2 itself, as it is published, with a model by its own classes."""

from __future__ import annotations

import pytest

from tests.hosts.framework_suite import BatchSuite

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(180)]


class TestAg2(BatchSuite):
    """A middleware of the tool."""

    name = "ag2"
    framework = "ag2 1.2.1"
    aborted = "HumanInputFailedError: "
