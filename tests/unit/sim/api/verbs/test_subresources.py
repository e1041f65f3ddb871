"""Subresources with bodies of another kind: Scale, Binding, Eviction, TokenRequest."""

from __future__ import annotations

from typing import Any

from tests.unit.sim.api.golden_api import Api

BASE = "/api/v1/namespaces/golden-ns"
POD: dict[str, Any] = {
    "metadata": {"name": "p"},
    "spec": {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]},
}
LABELS = {"a": "b"}
DEPLOYMENT: dict[str, Any] = {
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}
MERGE = "application/merge-patch+json"


def test_a_body_of_another_kind_is_refused_by_name() -> None:
    api = Api()
    api.ask("POST", f"{BASE}/pods", POD)
    for path, kind in (("binding", "Binding"), ("eviction", "Eviction")):
        reply = api.ask("POST", f"{BASE}/pods/p/{path}", {"apiVersion": "v1", "kind": "Pod"})
        group = "core" if kind == "Binding" else "policy"
        assert reply.code == 400
        assert reply.message == (
            f'Pod in version "v1" cannot be handled as a {kind}: '
            f"converting (v1.Pod) to ({group}.{kind}): unknown conversion"
        )


def test_an_eviction_of_the_former_version_is_understood() -> None:
    api = Api()
    api.ask("POST", f"{BASE}/pods", POD)
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert api.ask("POST", f"{BASE}/pods/p/eviction", body).code == 201


EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}


BINDING = {"metadata": {"name": "p"}, "target": {"name": "n"}}


def test_nothing_is_bound_or_evicted_in_a_namespace_that_is_missing_or_going() -> None:
    api = Api()
    for body, sub in ((BINDING, "pods/p/binding"), (BINDING, "bindings"), (EVICTION, "pods/p/eviction")):
        reply = api.ask("POST", f"/api/v1/namespaces/none/{sub}", body)
        assert (reply.code, reply.message) == (404, 'namespaces "none" not found')
    api.ask("POST", f"{BASE}/pods", POD)
    api.ask("DELETE", BASE)
    for body, sub in ((BINDING, "pods/p/binding"), (EVICTION, "pods/p/eviction")):
        reply = api.ask("POST", f"{BASE}/{sub}", body)
        text = "unable to create new content in namespace golden-ns because it is being terminated"
        assert (reply.code, reply.message) == (403, f'pods "p" is forbidden: {text}')
    assert "nodeName" not in api.ask("GET", f"{BASE}/pods/p").obj["spec"]


def test_an_eviction_is_dry_as_its_body_or_its_query_says_and_both_say_the_same() -> None:
    api = Api()
    api.ask("POST", f"{BASE}/pods", POD)
    for dry_run, query, code in (
        (["x"], "?dryRun=All", 500),
        (["All"], "", 201),
        (["All"], "?dryRun=All", 201),
    ):
        body = {**EVICTION, "deleteOptions": {"dryRun": dry_run}}
        reply = api.ask("POST", f"{BASE}/pods/p/eviction{query}", body)
        assert reply.code == code
        if code == 500:
            text = "Non-matching dry-run options in request and content: [All] and [x]"
            assert (reply.message, reply.reason) == (text, "")
    assert api.ask("GET", f"{BASE}/pods/p").ok


def evicting(*selectors: Any, **status: Any) -> Any:
    """The answer to the eviction of a ready pod with a budget of each of these selectors, all in
    this status.
    """
    api = Api()
    api.ask("POST", f"{BASE}/pods", {**POD, "metadata": {"name": "p", "labels": LABELS}})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert api.ask("PATCH", f"{BASE}/pods/p/status", {"status": ready}, MERGE).code == 200
    budgets = "/apis/policy/v1/namespaces/golden-ns/poddisruptionbudgets"
    for number, selector in enumerate(selectors):
        name = f"b{number}"
        body = {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector}}
        assert api.ask("POST", budgets, body).code == 201
        told = {"observedGeneration": 1, "disruptionsAllowed": 0, "desiredHealthy": 1, **status}
        assert api.ask("PATCH", f"{budgets}/{name}/status", {"status": told}, MERGE).code == 200
    return api.ask("POST", f"{BASE}/pods/p/eviction", EVICTION)


def test_a_budget_with_an_empty_selector_stops_no_eviction() -> None:
    assert evicting({}).code == 201
    assert evicting({"matchLabels": LABELS}).code == 429
    assert evicting({"matchLabels": LABELS}, {}).code == 429


def test_two_budgets_are_refused_without_a_reason() -> None:
    reply = evicting({"matchLabels": LABELS}, {"matchLabels": LABELS})
    text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    assert reply.body == {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": text, "code": 500
    }  # fmt: skip


def test_a_budget_with_too_many_evictions_on_their_way_forbids_more() -> None:
    late = {f"p{number}": "2022-01-01T00:00:00Z" for number in range(2001)}
    reply = evicting({"matchLabels": LABELS}, disruptionsAllowed=1, disruptedPods=late)
    assert (reply.code, reply.reason) == (403, "Forbidden")
    assert reply.message == (
        'poddisruptionbudget.policy "b0" is forbidden: DisruptedPods map too big - too many evictions not confirmed '
        "by PDB controller"
    )
    assert reply.body["details"] == {"name": "b0", "group": "policy", "kind": "poddisruptionbudget"}


def test_a_scale_is_owned_under_its_subresource() -> None:
    api = Api()
    path = "/apis/apps/v1/namespaces/golden-ns/deployments"
    api.ask("POST", path, DEPLOYMENT)
    assert api.ask("PATCH", f"{path}/d/scale", {"spec": {"replicas": 5}}, MERGE).code == 200
    item = api.ask("GET", f"{path}/d").item
    assert item is not None and item.obj["spec"]["replicas"] == 5
    assert [(m.subresource, m.fields) for m in item.managed if m.subresource] == [
        ("scale", {"f:spec": {"f:replicas": {}}})
    ]
    assert api.ask("PATCH", f"{path}/d/scale", {"spec": {"replicas": "x"}}, MERGE).code == 422


def test_a_write_of_ephemeral_containers_changes_nothing_else() -> None:
    api = Api()
    api.ask("POST", f"{BASE}/pods", POD)
    patch = {"metadata": {"labels": LABELS}, "spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}
    reply = api.ask("PATCH", f"{BASE}/pods/p/ephemeralcontainers", patch, MERGE)
    assert [c["name"] for c in reply.obj["spec"]["ephemeralContainers"]] == ["e"]
    assert "labels" not in reply.obj["metadata"]


def test_equivalent_fields_are_synchronized_and_the_singular_wins() -> None:
    api = Api()
    for name, given, shown in (
        ("a", {"podCIDR": "10.0.0.0/24"}, ("10.0.0.0/24", ["10.0.0.0/24"])),
        ("b", {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}, ("10.0.0.0/24", ["10.0.0.0/24", "fd00::/64"])),
        ("c", {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.1.0.0/24"]}, ("10.0.0.0/24", ["10.0.0.0/24"])),
    ):
        spec = api.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}, "spec": given}).obj["spec"]
        assert (spec["podCIDR"], spec["podCIDRs"]) == shown
    api.ask("POST", f"{BASE}/pods", POD)
    for given, address in (
        ({"podIPs": [{"ip": "10.0.0.1"}]}, "10.0.0.1"),
        ({"podIP": "10.0.0.2"}, "10.0.0.2"),
        ({"podIP": None}, "10.0.0.2"),
    ):
        status = api.ask("PATCH", f"{BASE}/pods/p/status", {"status": given}, MERGE).obj["status"]
        assert (status["podIP"], status["podIPs"]) == (address, [{"ip": address}])


def test_data_source_of_a_claim_is_set_twice_and_an_unknown_kind_is_dropped() -> None:
    api = Api()
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim, other = (
        {"apiGroup": None, "kind": "PersistentVolumeClaim", "name": "n"},
        {"apiGroup": "a.b", "kind": "K", "name": "n"},
    )
    for name, given, shown in (
        ("a", {"dataSource": claim}, claim),
        ("b", {"dataSource": other}, None),
        ("c", {"dataSourceRef": other}, other),
    ):
        body = {"metadata": {"name": name}, "spec": {**spec, **given}}
        made = api.ask("POST", f"{BASE}/persistentvolumeclaims", body).obj
        assert (made["spec"].get("dataSource"), made["spec"].get("dataSourceRef")) == (shown, shown)
        assert api.ask("PUT", f"{BASE}/persistentvolumeclaims/{name}", body).obj["spec"] == made["spec"]
    body = {"metadata": {"name": "d"}, "spec": {**spec, "dataSource": claim, "dataSourceRef": other}}
    assert "must match dataSourceRef" in api.ask("POST", f"{BASE}/persistentvolumeclaims", body).message
