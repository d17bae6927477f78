"""Render the Helm chart with a file of values, and check it against the schemas of Kubernetes.

`make test-chart` runs this in an environment of its own, because Helm's library has 240 MB.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import yaml

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "approval-gateway"
OLDEST, NEWEST = "1.29", "1.37"


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects that Helm would install.

    Raises HelmError if the chart does not accept the values, and ValidationError if Kubernetes
    would not accept an object.
    """
    with helm_python.Chart.load(CHART) as chart:
        manifests = chart.render(values, name="approvals", namespace="team")
    texts = [text for name, text in sorted(manifests.items()) if name.endswith(".yaml")]
    objects = [one for text in texts for one in yaml.safe_load_all(text) if one]
    for version in (OLDEST, NEWEST):
        for one in objects:
            kubernetes_validate.validate(one, version, strict=True)
    return objects


def main() -> None:
    """Read values as JSON, and write the objects as JSON. An error is one line, and exit code 1."""
    try:
        json.dump(render(json.load(sys.stdin)), sys.stdout)
    except (helm_python.HelmError, kubernetes_validate.ValidationError) as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
