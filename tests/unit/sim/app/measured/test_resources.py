"""The requests and limits of pods as metrics.

To see it fail: add up init containers, or show pods that have ended.
"""

from __future__ import annotations

from typing import Any

from sim.app.measured.resources import show_resources, totals, unit
from sim.kernel.meters import Meters
from sim.wire.http.measures.families import BOUNDS


def container(**requests: str) -> dict[str, Any]:
    return {"resources": {"requests": requests}}


def test_request_of_a_pod_is_the_larger_of_containers_and_init_containers() -> None:
    spec = {
        "containers": [container(cpu="500m"), container(cpu="1", memory="1Ki")],
        "initContainers": [container(cpu="2", memory="1"), container(cpu="1")],
        "overhead": {"cpu": "250m", "memory": "1"},
    }
    assert totals(spec, "requests") == {"cpu": 2_250_000_000, "memory": 1025 * 10**9}
    assert totals(spec, "limits") == {}


def test_ended_pods_and_zero_amounts_have_no_series() -> None:
    def pod(name: str, phase: str, **requests: str) -> dict[str, Any]:
        spec = {"nodeName": "n", "schedulerName": "s", "priority": 7, "containers": [container(**requests)]}
        return {
            "metadata": {"namespace": "a", "name": name},
            "spec": spec,
            "status": {"phase": phase},
        }

    shown = Meters(BOUNDS)
    show_resources([pod("p", "Running", cpu="100m", memory="0"), pod("q", "Failed", cpu="1")], shown)
    labels = ("a", "p", "n", "s", "7", "cpu", "cores")
    assert shown.counters == {"kube_pod_resource_request": {labels: 0.1}}


def test_units_follow_the_kind_of_resource() -> None:
    names = "cpu", "memory", "hugepages-2Mi", "attachable-volumes-x", "example.com/gpu"
    assert [unit(name) for name in names] == ["cores", "bytes", "bytes", "integer", ""]
