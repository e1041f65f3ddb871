"""The strategy of EndpointSlices."""

from __future__ import annotations

from sim.api.kinds.strategies import (
    for_create,
    for_update,
)
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

ORCH = NAMES["orch"]

RESOURCE = Scheme(ORCH).resource


def test_deprecated_topology_of_endpoints_is_dropped():
    point = {"addresses": ["10.1.2.3"], "deprecatedTopology": {"a": "b"}}
    given = {
        "metadata": {"name": "s"},
        "addressType": "IPv4",
        "endpoints": [point, {"addresses": ["10.1.2.4"]}],
    }
    made = for_create(RESOURCE("endpointslices"), given, NAMES["kubernetes"])
    assert made["endpoints"] == [{"addresses": ["10.1.2.3"]}, {"addresses": ["10.1.2.4"]}]
    assert (
        for_update(RESOURCE("endpointslices"), given, made, NAMES["orch"])["endpoints"] == made["endpoints"]
    )
    assert "deprecatedTopology" in given["endpoints"][0]
