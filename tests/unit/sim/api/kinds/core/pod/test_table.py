"""The table row of a pod."""

import pytest

from sim.api.kinds.tables import cells, row
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES
from sim.units import MINUTE, format_time

NAMING = NAMES["kubernetes"]

SCHEME = Scheme(NAMING)

PODS = SCHEME.resource("pods")


def pod(*states, **status):
    statuses = [{"ready": "running" in s, "restartCount": 0, "state": s} for s in states]
    spec = {"containers": [{"name": str(i)} for i, _ in enumerate(states)], "nodeName": "n1"}
    return {
        "metadata": {"name": "a", "creationTimestamp": format_time(0)},
        "spec": spec,
        "status": {"phase": "Running", "containerStatuses": statuses, **status},
    }


@pytest.mark.parametrize(
    ("shown", "obj"),
    [
        (["1/1", "Running"], pod({"running": {}})),
        (["0/1", "CrashLoopBackOff"], pod({"waiting": {"reason": "CrashLoopBackOff"}})),
        (["0/1", "ExitCode:3"], pod({"terminated": {"exitCode": 3}})),
        (["1/2", "NotReady"], pod({"terminated": {"reason": "Completed"}}, {"running": {}})),
        (["0/1", "Init:0/0"], pod({"waiting": {}}, initContainerStatuses=[{"state": {"running": {}}}])),
    ],
)
def test_pod_row_shows_the_state_of_its_containers(shown, obj):
    assert cells(PODS, obj, 5 * MINUTE, NAMING)[1:3] == shown
    assert cells(PODS, obj, 5 * MINUTE, NAMING)[4] == "5m"


def test_row_of_an_ended_pod_has_the_condition_completed():
    ended = row(PODS, pod(phase="Failed"), 0, NAMING)
    assert ended["conditions"][0]["type"] == "Completed" and ended["conditions"][0]["reason"] == "Failed"
    assert "conditions" not in row(PODS, pod(), 0, NAMING)
