"""What a kind's strategy does to objects on their way in; names and uids."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest

from sim.api.generated_names import ALPHABET, generated_name, new_uid
from sim.api.kinds.core.pod.kind import qos_class
from sim.api.kinds.strategies import (
    for_create,
    for_status,
    for_subresource,
    for_update,
    keep_system_fields,
)
from sim.api.schema.scheme import Scheme
from sim.ident import NAMES

ORCH = NAMES["orch"]
RESOURCE = Scheme(ORCH).resource


def obj(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}, "spec": spec or {}, **more}


def test_a_status_given_at_creation_is_dropped_but_a_nodes_is_kept() -> None:
    given = obj(status={"replicas": 9})
    assert for_create(RESOURCE("replicasets"), given, ORCH)["status"] == {"replicas": 0}
    assert for_create(RESOURCE("nodes"), given, ORCH)["status"] == {"replicas": 9}
    assert given["status"] == {"replicas": 9}


def test_a_namespace_gets_its_finalizer_and_label_and_loses_them_by_finalize_only() -> None:
    made = for_create(RESOURCE("namespaces"), obj(), ORCH)
    assert made["spec"]["finalizers"] == [ORCH.finalizer_namespace]
    assert made["metadata"]["labels"] == {ORCH.label_metadata_name: "x"}
    assert for_update(RESOURCE("namespaces"), {**made, "spec": {}}, made, ORCH)["spec"] == made["spec"]
    assert for_subresource(RESOURCE("namespaces"), "finalize", {**made, "spec": {}}, made, ORCH)["spec"] == {}


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
def test_generation_counts_what_the_kind_says(plural: str, change: dict[str, Any], counts: bool) -> None:
    old = obj({"replicas": 1}, status={})
    old = {**old, "metadata": {**old["metadata"], "generation": 3}}
    meta = {k: v for k, v in change.items() if k in ("annotations", "labels")}
    rest = {k: v for k, v in change.items() if k not in meta}
    new = {**old, **rest, "metadata": {**old["metadata"], **meta}}
    assert for_update(RESOURCE(plural), new, old, ORCH)["metadata"]["generation"] == (4 if counts else 3)


def test_a_status_write_changes_status_and_a_deployments_labels_stay() -> None:
    old = obj({"replicas": 1}, status={"a": 1})
    new = {**obj({"replicas": 2}, status={"a": 2}), "metadata": {**old["metadata"], "labels": {"x": "y"}}}
    done = for_status(RESOURCE("deployments"), new, old, ORCH)
    assert (done["spec"], done["status"]) == ({"replicas": 1}, {"a": 2})
    assert "labels" not in done["metadata"]
    assert for_status(RESOURCE("replicasets"), new, old, ORCH)["metadata"]["labels"] == {"x": "y"}


def test_system_fields_left_out_or_changed_by_a_client_come_back() -> None:
    old = obj()
    old["metadata"] |= {"creationTimestamp": "t", "generation": 2}
    new = {**old, "metadata": {"name": "x", "generation": 9}}
    metadata = keep_system_fields(new, old)["metadata"]
    assert (metadata["uid"], metadata["creationTimestamp"], metadata["generation"]) == ("u", "t", 2)
    assert keep_system_fields(old, old) is old


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}],
            "Guaranteed",
        ),
        (
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, {}],
            "Burstable",
        ),
        ([{"requests": {"storage": "1"}}], "BestEffort"),
    ],
)
def test_the_qos_class_follows_requests_and_limits(resources: list[dict[str, Any]], wanted: str) -> None:
    assert qos_class({"containers": [{"resources": r} for r in resources]}) == wanted


def test_generated_names_fit_and_uids_are_version_four() -> None:
    bits = Random(1).getrandbits
    name = generated_name("a" * 70, bits)
    assert len(name) == 63 and all(c in ALPHABET for c in name[58:])
    uids = [new_uid(bits) for _ in range(50)]
    assert len(set(uids)) == 50
    assert all(UUID(uid).version == 4 and str(UUID(uid)) == uid for uid in uids)


# --- features that are off --------------------------------------------------------------------------------------

SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
OFF_IN_SPREAD: list[dict[str, Any]] = [
    {"minDomains": 3},
    {"nodeAffinityPolicy": "Ignore"},
    {"nodeTaintsPolicy": "Honor"},
    {"matchLabelKeys": ["app"]},
]


def test_fields_of_pods_whose_features_are_off_are_dropped() -> None:
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
def test_an_object_that_has_such_a_field_keeps_it_and_may_change_it(given: dict[str, Any]) -> None:
    old = obj({"template": {"spec": {"topologySpreadConstraints": [{**SPREAD, **given}]}}})
    both: dict[str, Any] = {**SPREAD, "minDomains": 5, "nodeTaintsPolicy": "Ignore"}
    new = obj({"template": {"spec": {"topologySpreadConstraints": [{**both, **given}]}}})
    (kept,) = for_update(RESOURCE("deployments"), new, old, ORCH)["spec"]["template"]["spec"][
        "topologySpreadConstraints"
    ]
    assert kept == {**{k: v for k, v in both.items() if k in SPREAD or k in given}, **given}


def test_fields_of_sets_and_jobs_whose_features_are_off_are_dropped() -> None:
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


def test_what_has_no_such_field_is_the_same_object_afterwards() -> None:
    spec = {"topologySpreadConstraints": [SPREAD], "containers": [{"name": "c"}]}
    assert for_create(RESOURCE("pods"), obj(spec), ORCH)["spec"] is spec


def test_the_older_topology_of_endpoints_is_not_written():
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
