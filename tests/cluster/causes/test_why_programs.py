"""`orrery why pod/NAME` says why a container ended, what its probes and hooks found, and what its
programs needed that is not simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.inspect.why import find_story
from sim.app.run import run_plan
from sim.scenario.compile import load

FAILING_PROBE = {
    "exec": {"command": ["sh", "-c", "echo broken; exit 1"]},
    "periodSeconds": 5,
    "failureThreshold": 2,
}
UNREADY_PROBE = {"exec": {"command": ["cat", "/tmp/healthy"]}}
HOOK = {"postStart": {"exec": {"command": ["sh", "-c", "exit 4"]}}}


def pod(name: str, command: Sequence[str], **fields: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox", "command": list(command), **fields}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1, "restartPolicy": "OnFailure", "containers": [container]},
    }  # fmt: skip


PODS = [
    pod("exits", ["sh", "-c", "printf x | foo; ls --colour; exit 3"]),
    pod("probed", ["sleep", "900"], livenessProbe=FAILING_PROBE),
    pod("unready", ["sleep", "900"], readinessProbe=UNREADY_PROBE),
    pod("hooked", ["sleep", "900"], lifecycle=HOOK),
    pod("syntax", ["bash", "-c", "select x in a; do :; done"]),
]  # fmt: skip


SAID = {
    "exits": (
        "c with exit code 3 (Error)",
        "container c of pods/default/exits needs what is not simulated: the program foo is not found",
        "not simulated: ls has no option --colour",
    ),
    "probed": (
        "c with exit code 137, signal 9 (Error)",
        "Unhealthy of pods/default/probed: Liveness probe failed: broken",
        "kills c of pods/default/probed: Container c failed liveness probe, will be restarted",
    ),
    "unready": ("Readiness probe failed: cat: can't open '/tmp/healthy': No such file or directory",),
    "hooked": ("FailedPostStartHook of pods/default/hooked: ",),
    "syntax": ("c with exit code 127 (Error)", "not simulated: the shell: select is not understood"),
}  # fmt: skip


@pytest.mark.slow
async def test_a_story_of_a_pod_includes_its_programs(tmp_path: Path) -> None:
    cluster = {"naming": "kubernetes", "nodes": [{"count": 1}]}
    value = {
        "apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"},
        "spec": {"duration": "1m", "cluster": cluster, "objects": PODS},
    }  # fmt: skip
    file, trace = tmp_path / "s.yaml", tmp_path / "s.trace"
    file.write_text(yaml.safe_dump(value))
    await run_plan(load(file), trace_file=trace)
    for name, texts in SAID.items():
        lines = [line.text for line in find_story(trace, f"pod/{name}").lines]
        assert [text for text in texts if not any(text in line for line in lines)] == [], lines


@pytest.mark.slow
async def test_a_story_of_a_pod_names_the_oom_killer_and_the_step_behind_it(tmp_path: Path) -> None:
    cluster = {"nodes": [{"count": 1, "capacity": {"memory": "4Gi", "cpu": "8", "pods": "110"}}]}
    leak = {"name": "leak", "workload": {"name": "web", "memory": {"from": "1Gi", "perMinute": "4Gi"}}}
    value = {
        "apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"},
        "spec": {
            "duration": "2m", "cluster": cluster, "objects": [pod("web", ["sleep", "900"])],
            "timeline": [{"at": "30s", **leak}],
        },
    }  # fmt: skip
    file, trace = tmp_path / "s.yaml", tmp_path / "s.trace"
    file.write_text(yaml.safe_dump(value))
    await run_plan(load(file), trace_file=trace)
    lines = [line.text for line in find_story(trace, "pod/web").lines]
    wanted = (
        "c with exit code 137, signal 9 (OOMKilled)",
        "kills c of pods/default/web: no memory is left: the container uses 4096Mi, its oom_score_adj is 1000",
        'step "leak"',
    )
    assert [text for text in wanted if not any(text in line for line in lines)] == [], lines
