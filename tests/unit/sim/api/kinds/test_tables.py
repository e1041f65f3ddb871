"""Table rows as kubectl prints them."""

import pytest

from sim.api.kinds.tables import cells, columns, row
from sim.api.schema.scheme import Scheme
from sim.ident import NAMES
from sim.units import MINUTE, format_time

NAMING = NAMES["kubernetes"]
SCHEME = Scheme(NAMING)
PODS = SCHEME.resource("pods")


def test_columns_describe_their_fields():
    found = {column["name"]: column for column in columns(PODS)}
    assert found["Name"]["format"] == "name" and found["Name"]["description"].startswith(
        "Name must be unique"
    )
    assert [found[name]["priority"] for name in ("Age", "IP")] == [0, 1]


@pytest.mark.parametrize("resource", SCHEME.resources, ids=repr)
def test_every_kind_has_a_cell_for_every_column(resource):
    assert len(cells(resource, {"metadata": {"name": "a"}}, 0, NAMING)) == len(columns(resource))


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
def test_a_pod_shows_the_state_of_its_containers(shown, obj):
    assert cells(PODS, obj, 5 * MINUTE, NAMING)[1:3] == shown
    assert cells(PODS, obj, 5 * MINUTE, NAMING)[4] == "5m"


def test_an_ended_pod_is_marked_completed():
    ended = row(PODS, pod(phase="Failed"), 0, NAMING)
    assert ended["conditions"][0]["type"] == "Completed" and ended["conditions"][0]["reason"] == "Failed"
    assert "conditions" not in row(PODS, pod(), 0, NAMING)


def test_a_node_shows_roles_and_cordon():
    node = {
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert cells(SCHEME.resource("nodes"), node, 0, NAMING)[1:3] == ["Ready,SchedulingDisabled", "a,b"]


def test_long_lists_are_cut():
    subsets = [{"addresses": [{"ip": str(i)} for i in range(5)], "ports": [{"port": 80}]}]
    shown = cells(SCHEME.resource("endpoints"), {"metadata": {}, "subsets": subsets}, 0, NAMING)[1]
    assert shown == "0:80,1:80,2:80 + 2 more..."
