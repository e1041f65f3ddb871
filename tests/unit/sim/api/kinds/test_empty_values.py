"""Where an empty value that is sent differs from none: pointers, and comparisons by reflection."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.tables import cells
from tests.unit.sim.api.kinds.test_validation_rules import created, updated
from tests.unit.sim.api.kinds.writes import NAMING, SCHEME

TYPES = "may not specify more than 1 volume type"
SPEC = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
CONTAINER = {"name": "c", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}


def pod_with(*volumes: dict[str, Any]) -> list[str]:
    """The errors of a pod with these volumes."""
    spec = {"containers": [CONTAINER], "volumes": [{"name": f"v{i}", **v} for i, v in enumerate(volumes)]}
    return created("pods", {"spec": spec})


def test_an_empty_policy_is_not_defaulted_where_the_field_is_a_pointer() -> None:
    assert created("csidrivers", {"spec": {"fsGroupPolicy": ""}}) == [
        'spec.fsGroupPolicy: Unsupported value: "": supported values: "File", "None", "ReadWriteOnceWithFSType"'
    ]
    assert created("priorityclasses", {"preemptionPolicy": ""}) == ["preemptionPolicy: Required value"]


def test_an_empty_map_of_data_is_the_default_of_a_config_map() -> None:
    assert updated("configmaps", {"immutable": True}, {"immutable": True, "data": {}}) == []


@pytest.mark.parametrize(
    ("plural", "before", "after", "errors"),
    [
        (
            "storageclasses",
            {"provisioner": "a.b/c"},
            {"provisioner": "a.b/c", "parameters": {}},
            ["parameters: Forbidden: updates to parameters are forbidden."],
        ),
        ("storageclasses", {"provisioner": "a.b/c"}, {"provisioner": "a.b/c"}, []),
        (
            "configmaps",
            {"immutable": True},
            {"immutable": True, "binaryData": {}},
            ["binaryData: Forbidden: field is immutable when `immutable` is set"],
        ),
    ],
)
def test_an_empty_map_that_is_sent_changes_an_immutable_one(
    plural: str, before: dict[str, Any], after: dict[str, Any], errors: list[str]
) -> None:
    assert updated(plural, before, after) == errors


def test_a_claim_template_of_a_pod_may_not_even_hold_empty_system_fields() -> None:
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}
    metadata = {"deletionGracePeriodSeconds": 0, "ownerReferences": [], "finalizers": [], "uid": ""}
    errors = pod_with({"ephemeral": {"volumeClaimTemplate": {**claim, "metadata": metadata}}})
    at = "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata"
    assert errors == [
        f"{at}.{field}: Forbidden: cannot be set for an ephemeral volume"
        for field in ("deletionGracePeriodSeconds", "ownerReferences", "finalizers")
    ]


def test_a_second_source_of_a_volume_is_named_by_its_field() -> None:
    errors = pod_with({"emptyDir": {}, "gcePersistentDisk": {"pdName": "p"}})
    assert errors == [f"spec.volumes[0].gcePersistentDisk: Forbidden: {TYPES}"]


def test_each_source_of_a_projection_is_checked_before_their_number() -> None:
    projected = {"sources": [{"secret": {"name": "s"}, "serviceAccountToken": {"expirationSeconds": 3600}}]}
    assert pod_with({"projected": projected})[:2] == [
        "spec.volumes[0].projected.path: Required value",
        f"spec.volumes[0].projected.sources[0]: Forbidden: {TYPES}",
    ]


def test_an_event_without_component_shows_its_host_after_a_comma() -> None:
    event = {"metadata": {"name": "e"}, "source": {"host": "h"}}
    assert ", h" in cells(SCHEME.resource("events"), event, 0, NAMING)


def test_of_the_metadata_of_a_suspended_job_only_labels_and_annotations_may_change() -> None:
    def job(**metadata: Any) -> dict[str, Any]:
        template = {"metadata": {"labels": {"a": "b"}, **metadata}, "spec": SPEC}
        selector = {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}}
        return {"spec": {"suspend": True, "template": template, **selector}}

    assert updated("jobs", job(), job(annotations={"x": "y"})) == []
    (error,) = updated("jobs", job(), job(namespace="n"))
    assert error.startswith("spec.template: Invalid value: core.PodTemplateSpec{")


def test_a_slice_that_loses_its_address_type_is_checked_as_a_whole() -> None:
    before = {"addressType": "IPv4", "endpoints": []}
    assert updated("endpointslices", before, {**before, "addressType": ""}) == [
        "addressType: Required value",
        'addressType: Invalid value: "": field is immutable',
    ]
