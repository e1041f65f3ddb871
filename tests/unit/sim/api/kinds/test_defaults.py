"""Defaults per kind."""

import pytest

from sim.api.kinds.defaults import apply_defaults
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def default(kind, obj):
    return apply_defaults(SCHEME.resource(kind), obj)


@pytest.mark.parametrize(
    "kind", ["pods", "deployments", "replicasets", "statefulsets", "daemonsets", "services"]
)
def test_defaulting_twice_returns_the_same_object(kind):
    spec = TEMPLATE["spec"] if kind == "pods" else {"template": TEMPLATE, "ports": [{"port": 80}]}
    once = default(kind, {"metadata": {"name": "x"}, "spec": spec})
    assert default(kind, once) is once


def test_workloads_get_their_strategies():
    deployment = default("deployments", {"spec": {"template": TEMPLATE}})["spec"]
    assert deployment["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (deployment["replicas"], deployment["progressDeadlineSeconds"]) == (1, 600)
    assert default("deployments", {"spec": {"replicas": 0}})["spec"]["replicas"] == 0
    recreate = default("deployments", {"spec": {"strategy": {"type": "Recreate"}}})["spec"]["strategy"]
    assert recreate == {"type": "Recreate"}
    daemons = default("daemonsets", {"spec": {}})["spec"]["updateStrategy"]
    assert daemons["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    stateful = default("statefulsets", {"spec": {}})["spec"]
    assert stateful["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    given = default("statefulsets", {"spec": {"updateStrategy": {"type": "RollingUpdate"}}})["spec"]
    assert given["updateStrategy"] == {"type": "RollingUpdate"}
