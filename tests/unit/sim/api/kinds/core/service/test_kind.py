"""Defaults of Services."""

from sim.api.kinds.defaults import apply_defaults
from sim.api.schema.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])


def default(kind, obj):
    return apply_defaults(SCHEME.resource(kind), obj)


def test_target_port_defaults_to_the_port():
    spec = default("services", {"spec": {"ports": [{"port": 80}]}})["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (spec["type"], spec["internalTrafficPolicy"]) == ("ClusterIP", "Cluster")
    assert "externalTrafficPolicy" not in spec
