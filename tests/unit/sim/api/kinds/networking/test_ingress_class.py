"""Validation of IngressClasses."""

from sim.api.kinds.validation import validate_create, validate_update
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

N = NAMES["kubernetes"]

SCHEME = Scheme(N)


def fields(errors):
    return [error.field for error in errors]


def test_ingress_class_needs_a_controller_that_never_changes():
    resource = SCHEME.resource("ingressclasses")
    wrong = {
        "metadata": {"name": "c"},
        "spec": {"controller": "nodomain", "parameters": {"scope": "Namespace"}},
    }
    assert fields(validate_create(resource, wrong)) == [
        "spec.controller",
        "spec.parameters.kind",
        "spec.parameters.name",
        "spec.parameters.namespace",
    ]
    metadata = {"name": "c", "resourceVersion": "1"}
    before = {"metadata": metadata, "spec": {"controller": "x.y/z"}}
    after = {"metadata": metadata, "spec": {"controller": "x.y/a"}}
    assert fields(validate_update(resource, after, before)) == ["spec.controller"]
