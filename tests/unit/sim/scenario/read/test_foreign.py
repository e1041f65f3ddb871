"""Files of other tools are recognized where a scenario is expected."""

from __future__ import annotations

from typing import Any

import pytest

from sim.scenario.read.foreign import foreign, foreign_file


def obj(api_version: str, kind: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, **rest}


@pytest.mark.parametrize(
    ("value", "importer"),
    [
        (obj("kwok.x-k8s.io/v1alpha1", "Stage"), "kwok"),
        (obj("chaos-mesh.org/v1alpha1", "PodChaos"), "chaos-mesh"),
        (obj("pingcap.com/v1alpha1", "TimeChaos"), "chaos-mesh"),
        (obj("litmuschaos.io/v1alpha1", "ChaosEngine"), "litmus"),
        ({"version": 3, "config": {"trackedObjects": {}}, "events": []}, "simkube"),
        ([{"trackedObjects": {}}, []], "simkube"),
        ({"apiVersion": "v1", "kind": "List", "items": []}, "kubectl-dump"),
        ({"apiVersion": "v1", "kind": "PodList", "items": []}, "kubectl-dump"),
        (obj("batch/v1", "Job"), ""),
    ],
)
def test_format_of_a_file_is_recognized(value: Any, importer: str) -> None:
    found = foreign(value)
    assert found is not None and found.importer == importer


@pytest.mark.parametrize(
    "value",
    [
        obj("orrery.dev/v1", "Scenario"),
        obj("orrery.dev/v2", "Scenari"),
        obj("v1", "Scenario"),
        obj("dev/v1", "Run", spec={"timeline": []}),
        {"spec": {}},
        "text",
        None,
    ],
)
def test_what_may_be_meant_as_a_scenario_is_not_foreign(value: Any) -> None:
    assert foreign(value) is None


def test_tool_of_a_file_is_named_wherever_its_documents_are() -> None:
    found = foreign_file([obj("v1", "Node"), obj("kwok.x-k8s.io/v1alpha1", "Stage")])
    assert found is not None and found.importer == "kwok"
    assert "orrery import kwok a.yaml" in found.remedy("a.yaml")


def test_manifest_has_the_remedy_of_a_manifest() -> None:
    found = foreign(obj("batch/v1", "Job"))
    assert found is not None and "spec.objects" in found.remedy("a.yaml")
