"""Defaults of Services."""

from sim.api.kinds.core.service.validation import validate_service_update
from sim.api.kinds.defaults import apply_defaults
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])


def default(kind, obj):
    return apply_defaults(SCHEME.resource(kind), obj)


def test_target_port_defaults_to_the_port():
    spec = default("services", {"spec": {"ports": [{"port": 80}]}})["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (spec["type"], spec["internalTrafficPolicy"]) == ("ClusterIP", "Cluster")
    assert "externalTrafficPolicy" not in spec


def test_an_affinity_without_seconds_gets_the_default_ones():
    for config in ({}, {"clientIP": {}}):
        given = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": config}
        spec = default("services", {"spec": given})["spec"]
        assert spec["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}


def test_a_class_that_does_not_fit_is_refused_twice_in_an_update():
    old = default(
        "services", {"metadata": {"name": "s", "namespace": "n", "resourceVersion": "1"}, "spec": {}}
    )
    new = {**old, "spec": {**old["spec"], "loadBalancerClass": "x.io/y"}}
    found = [error.field for error in validate_service_update(new, old)]
    assert found.count("spec.loadBalancerClass") == 2
