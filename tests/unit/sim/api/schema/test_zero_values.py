"""What Go writes for an object of which nothing is set."""

from __future__ import annotations

import pytest

from sim.api.schema.zero_values import zero_value
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])
META: Obj = {"creationTimestamp": None}
TEMPLATE: Obj = {"metadata": META, "spec": {"containers": None}}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("configmaps", {}),
        ("pods", {"spec": {"containers": None}, "status": {}}),
        ("services", {"spec": {}, "status": {"loadBalancer": {}}}),
        (
            "deployments",
            {"spec": {"replicas": 0, "selector": None, "template": TEMPLATE, "strategy": {}}, "status": {}},
        ),
        ("endpointslices", {"endpoints": None, "ports": None, "addressType": ""}),
        ("rolebindings", {"roleRef": {"apiGroup": "", "kind": "", "name": ""}}),
        ("leases", {"spec": {}}),
        (
            "volumeattachments",
            {"spec": {"attacher": "", "source": {}, "nodeName": ""}, "status": {"attached": False}},
        ),
    ],
)
def test_zero_of_a_kind_has_its_structs_and_required_fields(name: str, more: Obj) -> None:
    assert zero_value(SCHEME.resource(name).schema) == {"metadata": META, **more}
