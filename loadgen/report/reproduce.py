"""How a run is done again."""

from __future__ import annotations

import shlex

from loadgen.record import Manifest


def reproduce(manifest: Manifest) -> tuple[str, ...]:
    """Commands: the same run again, and its numbers from the records."""
    command = "quality" if manifest.experiment.get("passes") else "run"
    again = ["specload", command, manifest.scenario_path or "SCENARIO.yaml"]
    for override in manifest.overrides:
        again += ["--set", override]
    for name, url in manifest.arm_urls.items():
        again += ["--arm", f"{name}={url}"]
    if transport := manifest.client.get("transport"):
        again += ["--transport", transport]
    return (
        f"{shlex.join(again)}  # specload {manifest.specload_version}, plan {manifest.plan_hash[:12]}",
        shlex.join(["specload", "report", manifest.run_id]),
    )
