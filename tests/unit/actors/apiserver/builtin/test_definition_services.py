"""The APIServices of custom resources."""

from typing import Any

from actors.apiserver.builtin.definition_services import decide, wanted
from sim.ident import NAMES

N = NAMES["kubernetes"]
LABEL = "kube-aggregator.kubernetes.io/automanaged"


def definition(*versions: tuple[str, bool]) -> dict[str, Any]:
    listed = [{"name": name, "served": served} for name, served in versions]
    return {"spec": {"group": "example.com", "versions": listed}}


def test_group_version_with_a_serving_definition_has_an_api_service() -> None:
    found = wanted([definition(("v1", True), ("v2", False))], "example.com", "v1", N)
    assert found is not None
    assert found["metadata"] == {"name": "v1.example.com", "labels": {LABEL: "true"}}
    assert found["spec"] == {
        "group": "example.com",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 100,
    }
    assert wanted([definition(("v1", True), ("v2", False))], "example.com", "v2", N) is None
    assert wanted([definition(("v1", True))], "other.com", "v1", N) is None


def test_only_managed_api_services_are_changed() -> None:
    desired = wanted([definition(("v1", True))], "example.com", "v1", N)
    assert desired is not None
    assert decide(desired, None, N) == ("create", desired)
    assert decide(None, None, N) is None
    assert decide(desired, desired, N) is None
    changed = {**desired, "spec": {**desired["spec"], "versionPriority": 5}}
    assert decide(desired, changed, N) == ("update", desired)
    assert decide(None, desired, N) == ("delete", desired)
    foreign = {**changed, "metadata": {"name": "v1.example.com"}}
    assert decide(desired, foreign, N) is None
    assert decide(None, foreign, N) is None
