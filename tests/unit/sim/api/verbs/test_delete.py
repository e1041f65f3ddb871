"""DELETE: preconditions, and collections."""

from __future__ import annotations

import pytest

from sim.api.types import Obj
from tests.unit.sim.api.golden_api import Api

MAPS = "/api/v1/namespaces/golden-ns/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/golden-ns/leases"


@pytest.fixture
def api() -> Api:
    return Api()


def made(api: Api, path: str, name: str) -> Obj:
    meta: Obj = api.ask("POST", path, {"metadata": {"name": name}}).obj["metadata"]
    return meta


@pytest.mark.parametrize("path", [MAPS, LEASES])
@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_delete_with_a_precondition_needs_that_very_object(api: Api, path: str, field: str) -> None:
    meta = made(api, path, "a")
    other = {"preconditions": {field: "another"}}
    refused = api.ask("DELETE", f"{path}/a", other)
    assert refused.code == 409
    assert "another" in refused.message
    assert meta[field] in refused.message
    assert api.ask("GET", f"{path}/a").code == 200
    assert api.ask("DELETE", f"{path}/a", {"preconditions": {field: meta[field]}}).code == 200
    assert api.ask("GET", f"{path}/a").code == 404


def test_delete_without_preconditions_removes_any_object_of_the_name(api: Api) -> None:
    made(api, MAPS, "a")
    assert api.ask("DELETE", f"{MAPS}/a", {}).code == 200


def test_namespace_compares_preconditions_in_words_of_its_own(api: Api) -> None:
    meta = made(api, "/api/v1/namespaces", "n")
    for field, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        refused = api.ask("DELETE", "/api/v1/namespaces/n", {"preconditions": {field: "another"}})
        assert refused.code == 409
        assert f"Precondition failed: {word} in precondition: another" in refused.message
    same = {"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
    assert api.ask("DELETE", "/api/v1/namespaces/n", same).ok


@pytest.mark.parametrize(
    ("orphan", "finalizers"), [(True, ["x.io/hold", "orphan"]), (False, ["x.io/hold"]), (None, ["x.io/hold"])]
)
def test_old_option_chooses_the_propagation(api: Api, orphan: bool | None, finalizers: list[str]) -> None:
    body = {"metadata": {"name": "a", "finalizers": ["x.io/hold"]}}
    assert api.ask("POST", MAPS, body).ok
    options = {} if orphan is None else {"orphanDependents": orphan}
    assert api.ask("DELETE", f"{MAPS}/a", options).ok
    assert api.ask("GET", f"{MAPS}/a").obj["metadata"]["finalizers"] == finalizers
