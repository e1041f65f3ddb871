"""Differences in refused updates show what was sent empty (nil and empty in Go)."""

from __future__ import annotations

from typing import Any

from sim.api.types import Obj
from tests.unit.sim.api.golden_api import Api

CORE = "/api/v1/namespaces/golden-ns"
MERGE = "application/merge-patch+json"


def changed_claim(**spec: Any) -> Obj:
    """The answer to a PUT of a bound claim with some fields changed."""
    api = Api()
    given = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": "v",
    }
    path = f"{CORE}/persistentvolumeclaims"
    api.ask("POST", path, {"metadata": {"name": "c"}, "spec": given})
    api.ask(
        "PATCH", f"{path}/c/status", {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}, MERGE
    )
    body = api.ask("PUT", f"{path}/c", {"metadata": {"name": "c"}, "spec": given | spec}).body
    assert isinstance(body, dict)
    return body


def test_bound_claim_with_empty_requests_has_changed_its_size_only() -> None:
    causes = changed_claim(resources={"requests": {}})["details"]["causes"]
    fields = [cause["field"] for cause in causes]
    assert "spec" not in fields and "spec.resources.requests.storage" in fields
    assert "spec" in [cause["field"] for cause in changed_claim(resources={})["details"]["causes"]]


def test_empty_list_of_a_claim_is_shown_as_empty() -> None:
    text = changed_claim(accessModes=[])["message"]
    assert "+ \tAccessModes: []core.PersistentVolumeAccessMode{},\n" in text


def test_empty_lists_of_a_pod_are_shown_as_empty_but_change_nothing_alone() -> None:
    api = Api()
    container: Obj = {"name": "c", "image": "i"}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    stored = api.ask("POST", f"{CORE}/pods", pod).obj["spec"]
    stored = {**stored, "containers": [{**stored["containers"][0], "args": []}]}
    reply = api.ask("PUT", f"{CORE}/pods/p", {**pod, "spec": stored})
    assert reply.code == 200
    reply = api.ask("PUT", f"{CORE}/pods/p", {**pod, "spec": {**stored, "hostname": "h"}})
    assert "- \t\t\tArgs:       nil,\n+ \t\t\tArgs:       []string{},\n" in reply.message
