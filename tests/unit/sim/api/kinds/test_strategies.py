"""Strategies: what happens to objects on their way into the store."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.strategies import (
    for_create,
    for_status,
    for_update,
    keep_system_fields,
)
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

ORCH = NAMES["orch"]
RESOURCE = Scheme(ORCH).resource


def obj(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}, "spec": spec or {}, **more}


def test_status_of_a_create_is_dropped_except_for_nodes() -> None:
    given = obj(status={"replicas": 9})
    assert for_create(RESOURCE("replicasets"), given, ORCH)["status"] == {"replicas": 0}
    assert for_create(RESOURCE("nodes"), given, ORCH)["status"] == {"replicas": 9}
    assert given["status"] == {"replicas": 9}


@pytest.mark.parametrize(
    ("plural", "change", "counts"),
    [
        ("replicasets", {"spec": {"replicas": 2}}, True),
        ("replicasets", {"status": {"replicas": 2}}, False),
        ("deployments", {"annotations": {"a": "b"}}, True),
        ("replicasets", {"annotations": {"a": "b"}}, False),
        ("endpointslices", {"labels": {"a": "b"}}, True),
        ("leases", {"spec": {"holderIdentity": "b"}}, False),
    ],
)
def test_generation_counts_the_changes_that_the_strategy_names(
    plural: str, change: dict[str, Any], counts: bool
) -> None:
    old = obj({"replicas": 1}, status={})
    old = {**old, "metadata": {**old["metadata"], "generation": 3}}
    meta = {k: v for k, v in change.items() if k in ("annotations", "labels")}
    rest = {k: v for k, v in change.items() if k not in meta}
    new = {**old, **rest, "metadata": {**old["metadata"], **meta}}
    assert for_update(RESOURCE(plural), new, old, ORCH)["metadata"]["generation"] == (4 if counts else 3)


def test_status_write_changes_status_and_no_label_of_a_deployment() -> None:
    old = obj({"replicas": 1}, status={"a": 1})
    new = {**obj({"replicas": 2}, status={"a": 2}), "metadata": {**old["metadata"], "labels": {"x": "y"}}}
    done = for_status(RESOURCE("deployments"), new, old, ORCH)
    assert (done["spec"], done["status"]) == ({"replicas": 1}, {"a": 2})
    assert "labels" not in done["metadata"]
    assert for_status(RESOURCE("replicasets"), new, old, ORCH)["metadata"]["labels"] == {"x": "y"}


def test_system_fields_keep_their_values_in_an_update() -> None:
    old = obj()
    old["metadata"] |= {"creationTimestamp": "t", "generation": 2}
    new = {**old, "metadata": {"name": "x", "generation": 9}}
    metadata = keep_system_fields(new, old)["metadata"]
    assert (metadata["uid"], metadata["creationTimestamp"], metadata["generation"]) == ("u", "t", 2)
    assert keep_system_fields(old, old) is old


# --- features that are off ----------

SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
OFF_IN_SPREAD: list[dict[str, Any]] = [
    {"minDomains": 3},
    {"nodeAffinityPolicy": "Ignore"},
    {"nodeTaintsPolicy": "Honor"},
    {"matchLabelKeys": ["app"]},
]


def test_gated_fields_of_sets_and_jobs_are_dropped() -> None:
    spec = {
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
        "updateStrategy": {"rollingUpdate": {"partition": 1, "maxUnavailable": 2}},
    }
    made = for_create(RESOURCE("statefulsets"), obj(spec), ORCH)["spec"]
    assert made == {"updateStrategy": {"rollingUpdate": {"partition": 1}}}
    assert for_update(RESOURCE("statefulsets"), obj(spec), obj(spec), ORCH)["spec"] == spec
    assert for_create(RESOURCE("statefulsets"), obj(spec), ORCH, ("MaxUnavailableStatefulSet",))["spec"] == {
        "updateStrategy": spec["updateStrategy"]
    }
    job = obj({"podFailurePolicy": {"rules": []}, "suspend": True})
    assert (
        for_update(RESOURCE("jobs"), job, obj({"suspend": True}), ORCH, ("JobPodFailurePolicy",))["spec"]
        == job["spec"]
    )
    assert for_update(RESOURCE("jobs"), job, obj({"suspend": True}), ORCH)["spec"] == {"suspend": True}
