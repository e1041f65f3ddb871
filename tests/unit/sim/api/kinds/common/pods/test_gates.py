"""Fields of pods behind feature gates."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.strategies import (
    for_create,
    for_update,
)
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

ORCH = NAMES["orch"]

RESOURCE = Scheme(ORCH).resource


def obj(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}, "spec": spec or {}, **more}


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}

OFF_IN_SPREAD: list[dict[str, Any]] = [
    {"minDomains": 3},
    {"nodeAffinityPolicy": "Ignore"},
    {"nodeTaintsPolicy": "Honor"},
    {"matchLabelKeys": ["app"]},
]


def test_pod_fields_behind_closed_gates_are_dropped() -> None:
    masked = {"name": "c", "securityContext": {"procMount": "Unmasked", "privileged": True}}
    off = {k: v for given in OFF_IN_SPREAD for k, v in given.items()}
    spec = {
        "hostUsers": False,
        "topologySpreadConstraints": [{**SPREAD, **off}, SPREAD],
        "containers": [masked],
        "nodeName": "n",
    }
    wanted = {
        "topologySpreadConstraints": [SPREAD, SPREAD],
        "containers": [{"name": "c", "securityContext": {"procMount": "Default", "privileged": True}}],
        "nodeName": "n",
    }
    template = {"template": {"spec": spec}}
    assert for_create(RESOURCE("pods"), obj(spec), ORCH)["spec"] == wanted
    assert for_create(RESOURCE("deployments"), obj(template), ORCH)["spec"]["template"]["spec"] == wanted
    job = for_create(RESOURCE("cronjobs"), obj({"jobTemplate": {"spec": template}}), ORCH)["spec"][
        "jobTemplate"
    ]
    assert job["spec"]["template"]["spec"] == wanted


@pytest.mark.parametrize("given", OFF_IN_SPREAD)
def test_stored_gated_field_stays_and_may_change(given: dict[str, Any]) -> None:
    old = obj({"template": {"spec": {"topologySpreadConstraints": [{**SPREAD, **given}]}}})
    both: dict[str, Any] = {**SPREAD, "minDomains": 5, "nodeTaintsPolicy": "Ignore"}
    new = obj({"template": {"spec": {"topologySpreadConstraints": [{**both, **given}]}}})
    (kept,) = for_update(RESOURCE("deployments"), new, old, ORCH)["spec"]["template"]["spec"][
        "topologySpreadConstraints"
    ]
    assert kept == {**{k: v for k, v in both.items() if k in SPREAD or k in given}, **given}


def test_spec_without_gated_fields_stays_the_same_object() -> None:
    spec = {"topologySpreadConstraints": [SPREAD], "containers": [{"name": "c"}]}
    assert for_create(RESOURCE("pods"), obj(spec), ORCH)["spec"] is spec
