"""Patches of stored objects: versions, kinds and defaults of what they make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sim.api.types import Reply
from sim.ident import NAMES
from sim.wire.http.forms.negotiation import PARTIAL, Form
from sim.wire.http.forms.rendering import View, partial
from tests.unit.sim.api.golden_api import Api, whole

CORE = "/api/v1/namespaces/golden-ns"
JSON = "application/json-patch+json"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/golden-ns/leases"


@pytest.fixture(scope="module")
def api() -> Api:
    api = Api()
    api.ask("POST", f"{CORE}/configmaps", {"metadata": {"name": "m"}, "data": {"k": "v"}})
    api.ask("POST", LEASE, {"metadata": {"name": "l"}})
    return api


def patched(
    api: Api, patch: Any, media: str = MERGE, options: str = "", path: str = f"{CORE}/configmaps/m"
) -> Reply:
    return api.ask("PATCH", f"{path}?dryRun=All{options}", patch, media)


def says(reply: Reply) -> str:
    return str(reply.body["message"])


@pytest.mark.parametrize("media", [MERGE, STRATEGIC])
def test_patch_with_revision_zero_is_unconditional(api: Api, media: str) -> None:
    assert patched(api, {"metadata": {"resourceVersion": "0"}}, media).code == 200
    assert patched(api, {"metadata": {"resourceVersion": "1"}}, media).code == 409


def test_patch_that_removes_the_revision_is_refused_where_one_is_required(api: Api) -> None:
    reply = patched(api, {"metadata": {"resourceVersion": None}}, path=f"{LEASE}/l")
    assert says(reply).endswith(
        "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update"
    )
    assert patched(api, {"metadata": {"resourceVersion": None}}).code == 200


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (
            {"kind": "Foo"},
            'no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:100"',
        ),
        ({"kind": "Secret"}, "illegal base64 data at input byte 0"),
        ({"kind": "Secret", "data": None}, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        ({"apiVersion": "a/b/c"}, "unexpected GroupVersion string: a/b/c"),
        (
            {"apiVersion": 1},
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field "
            ".apiVersion of type string",
        ),
    ],
)
def test_patch_of_a_text_to_another_kind_is_refused_as_a_decoder_does(api: Api, patch: Any, why: str) -> None:
    assert says(patched(api, patch)).endswith(f'}}": {why}')


def test_strategic_patch_to_another_kind_keeps_the_kind(api: Api) -> None:
    reply = patched(api, {"kind": "Secret", "apiVersion": "v2"}, STRATEGIC)
    assert (reply.code, whole(reply)["kind"]) == (200, "ConfigMap")


def test_patch_that_removes_the_version_leaves_an_object_without_known_fields(api: Api) -> None:
    reply = patched(api, {"apiVersion": None})
    assert (reply.code, says(reply)) == (
        400,
        "the name of the object (m based on URL) was undeterminable: name must be provided",
    )
    strict = says(patched(api, {"apiVersion": None}, options="&fieldValidation=Strict"))
    assert strict.endswith('strict decoding error: unknown field "data", unknown field "metadata"')


def test_patch_owns_a_default_that_replaces_what_it_removes() -> None:
    api = Api()
    path = "/apis/apps/v1/namespaces/golden-ns/daemonsets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    api.ask("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    reply = api.ask("PATCH", f"{path}/d?fieldManager=m", {"metadata": {"annotations": None}}, MERGE)
    name = "deprecated.daemonset.template.generation"
    assert whole(reply)["metadata"]["annotations"] == {name: "1"}
    owners = {e["manager"]: e["fieldsV1"] for e in whole(reply)["metadata"]["managedFields"]}
    assert owners["m"] == {"f:metadata": {"f:annotations": {f"f:{name}": {}}}}


@pytest.mark.parametrize(
    ("media", "why"),
    [
        (MERGE, "error decoding patch: json: cannot unmarshal number 1e400 into Go value of type float64"),
        (STRATEGIC, "json: cannot unmarshal number 1e400 into Go value of type float64"),
        (
            "application/json-patch+json",
            "error decoding patch: json: cannot unmarshal number 1e400 into Go struct field "
            "jsonPatchOp.value of type float64",
        ),
    ],
)
def test_number_that_no_float_holds_is_refused(api: Api, media: str, why: str) -> None:
    reply = patched(api, '{"data":{"x":1e400}}', media)
    assert (reply.code, says(reply)) == (400, why)


def test_put_to_an_absent_object_conflicts_by_uid_and_ignores_its_revision() -> None:
    api = Api()
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/golden-ns/roles"
    obj = {"metadata": {"name": "a", "uid": "x"}}
    for path, stored in ((f"{CORE}/configmaps", "configmaps"), (roles, "roles")):
        reply = api.ask("PUT", f"{path}/a", obj)
        assert reply.code == 409
        assert f"Key: /registry/{stored}/golden-ns/a, ResourceVersion: 0, AdditionalErrorMsg: " in says(reply)
    revised = {"metadata": {"name": "a", "resourceVersion": "77"}}
    assert api.ask("PUT", f"{CORE}/configmaps/a", revised).code == 404
    shown = api.ask("PUT", f"{roles}/a?dryRun=All", revised)
    assert (shown.code, whole(shown)["metadata"]["resourceVersion"]) == (201, "77")
    assert api.ask("PUT", f"{roles}/a", revised).code == 201


def test_namespace_of_a_cluster_scoped_object_is_dropped_by_an_update() -> None:
    api, path = Api(), "/apis/scheduling.k8s.io/v1/priorityclasses"
    obj = {"metadata": {"name": "a"}, "value": 1}
    assert api.ask("POST", path, obj).code == 201
    put = api.ask("PUT", f"{path}/a", {**obj, "metadata": {"name": "a", "namespace": "other"}})
    assert (put.code, "namespace" in whole(put)["metadata"]) == (200, False)


def test_options_of_a_deletion_name_the_wrong_type_of_their_kind(api: Api) -> None:
    reply = api.ask("DELETE", f"{CORE}/configmaps/m?dryRun=All", {"kind": 1})
    why = "json: cannot unmarshal number into Go struct field .kind of type string"
    assert (reply.code, says(reply)) == (500, f"couldn't get version/kind; json parse error: {why}")


@pytest.mark.parametrize("media", [MERGE, STRATEGIC, "application/apply-patch+yaml"])
def test_error_about_a_patched_object_shows_an_empty_map_as_it_was_sent(media: str) -> None:
    api, path = Api(), "/apis/apps/v1/namespaces/golden-ns/daemonsets"
    labels = {"a": "1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    head = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    assert api.ask("PATCH", f"{path}/d?fieldManager=m", {**head, "spec": spec}, media).code in (201, 404)
    if media in (MERGE, STRATEGIC):
        assert api.ask("POST", path, {**head, "spec": spec}).code == 201
        empty = {"$patch": "replace"} if media == STRATEGIC else {"a": None}
        reply = api.ask("PATCH", f"{path}/d", {"spec": {"selector": {"matchLabels": empty}}}, media)
    else:
        spec = {**spec, "selector": {"matchLabels": {}}}
        reply = api.ask("PATCH", f"{path}/d?fieldManager=m", {**head, "spec": spec}, media)
    assert "v1.LabelSelector{MatchLabels:map[string]string{}, " in says(reply)


def test_metadata_of_a_daemon_set_lacks_the_annotation_of_its_version() -> None:
    api, path = Api(), "/apis/apps/v1/namespaces/golden-ns/daemonsets"
    template = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "1"}}, "template": template}
    made = api.ask("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    kind = api.scheme.resource("daemonsets")
    view = View(NAMES["kubernetes"], kind, Form("application/json", PARTIAL), 0)
    assert made.item is not None
    assert whole(made)["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}
    assert "annotations" not in partial(view, made.item)["metadata"]


_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_RUN = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}


@pytest.mark.parametrize(
    ("path", "spec", "labels", "written"),
    [
        (f"{CORE}/persistentvolumeclaims", _CLAIM, {}, True),
        ("/apis/batch/v1/namespaces/golden-ns/jobs", {"template": {"spec": _RUN}}, {}, True),
        ("/apis/batch/v1/namespaces/golden-ns/jobs", {"template": {"spec": _RUN}}, {"a": "b"}, False),
        (f"{CORE}/pods", _RUN, {}, False),
    ],
)
def test_first_patch_stores_what_was_a_default_of_reading(
    api: Api, path: str, spec: Any, labels: Any, written: bool
) -> None:
    name = f"d{len(labels)}"
    made = api.ask("POST", path, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    item = made.item
    assert item is not None
    dry = api.ask("PATCH", f"{path}/{name}?dryRun=All", {}, MERGE)
    first, second = (api.ask("PATCH", f"{path}/{name}", {}, MERGE) for _ in range(2))
    revs = [reply.item.rev for reply in (made, dry, first, second) if reply.item is not None]
    assert [rev != revs[0] for rev in revs] == [False, False, written, written]
    assert revs[3] == revs[2]


def test_write_that_the_strategy_takes_back_renews_the_time_of_its_writer() -> None:
    api, path = Api(), f"{CORE}/serviceaccounts"
    made = api.ask("POST", path, {"metadata": {"name": "a"}, "secrets": [{"name": "s"}]})
    api.registry = replace(api.registry, wall_us=lambda: 1_700_000_002_000_000)
    dropped = {"secrets": [{"name": "s", "fieldPath": "x"}]}  # only names are kept
    first, second = (api.ask("PATCH", f"{path}/a", dropped, MERGE) for _ in range(2))
    assert made.item is not None and first.item is not None and second.item is not None
    assert (first.item.rev != made.item.rev, second.item.rev) == (True, first.item.rev)
    assert [entry.time_s for entry in first.item.managed] == [1_700_000_002]


@pytest.mark.parametrize(
    ("patch", "media", "text"),
    [
        ({"data": {"c": 1}}, MERGE, b'{"a":{"z":1,"y":2},"b":1,"c":1}'),
        ([{"op": "add", "path": "/data/a/x", "value": 0}], JSON, b'{"a":{"x":0,"y":2,"z":1},"b":1}'),
        ([], JSON, b'{"b":1,"a":{"z":1,"y":2}}'),
        ({"data": {"c": 1}}, STRATEGIC, b'{"a":{"y":2,"z":1},"b":1,"c":1}'),
    ],
)
def test_refused_patch_of_a_revision_shows_the_text_that_the_patch_makes(
    patch: Any, media: str, text: bytes
) -> None:
    api, path = Api(), "/apis/apps/v1/namespaces/golden-ns/controllerrevisions"
    body = '{"metadata": {"name": "r"}, "revision": 1, "data": {"b": 1, "a": {"z": 1, "y": 2}}}'
    assert api.ask("POST", path, body).code == 201
    shown = ", ".join(f"0x{byte:x}" for byte in text)
    assert f"Raw:[]uint8{{{shown}}}, " in says(api.ask("PATCH", f"{path}/r", patch, media))


@pytest.mark.parametrize("media", [MERGE, STRATEGIC])
def test_zero_time_of_a_pointer_is_written_as_null_and_owned(media: str) -> None:
    api, path = Api(), "/apis/batch/v1/namespaces/golden-ns/cronjobs"
    template = {"spec": {"template": {"spec": _RUN}}}
    api.ask(
        "POST", path, {"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": template}}
    )
    status = {"lastScheduleTime": "0001-01-01T00:00:00Z", "lastSuccessfulTime": "2020-01-01T00:00:00Z"}
    found = whole(api.ask("PATCH", f"{path}/c/status", {"status": status}, media))
    assert found["status"] == {**status, "lastScheduleTime": None}
    owned = found["metadata"]["managedFields"][-1]["fieldsV1"]["f:status"]
    assert owned == {"f:lastScheduleTime": {}, "f:lastSuccessfulTime": {}}
    gone = whole(api.ask("PATCH", f"{path}/c/status", {"status": {"lastScheduleTime": None}}, media))
    assert "lastScheduleTime" not in gone["status"]


def test_zero_deletion_timestamp_is_a_change_of_the_metadata() -> None:
    api = Api()
    api.ask("POST", f"{CORE}/configmaps", {"metadata": {"name": "m"}})
    patch = {"metadata": {"deletionTimestamp": "0001-01-01T00:00:00Z"}}
    reply = api.ask("PATCH", f"{CORE}/configmaps/m", patch, MERGE)
    assert reply.message.endswith("0001-01-01 00:00:00 +0000 UTC: field is immutable")


def test_dry_run_of_an_autoscaler_repeats_the_first_stored_metric() -> None:
    api, path = Api(), "/apis/autoscaling/v2/namespaces/golden-ns/horizontalpodautoscalers"
    target = {"type": "AverageValue", "averageValue": "5Mi"}
    memory = {"type": "Resource", "resource": {"name": "memory", "target": target}}
    about = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    spec = {"maxReplicas": 3, "scaleTargetRef": about, "metrics": [memory]}
    assert api.ask("POST", path, {"metadata": {"name": "a"}, "spec": spec}).code == 201
    dry = api.ask("PATCH", f"{path}/a?dryRun=All", {}, MERGE)
    assert dry.obj["spec"]["metrics"] == [memory, memory]
    assert api.ask("PATCH", f"{path}/a", {}, MERGE).obj["spec"]["metrics"] == [memory]


def test_namespace_of_which_nothing_is_orphaned_waits_for_its_dependents() -> None:
    api, path = Api(), "/api/v1/namespaces"
    for name, options, finalizers in (("a", {"orphanDependents": False}, True), ("b", {}, False)):
        api.ask("POST", path, {"metadata": {"name": name}})
        api.ask("DELETE", f"{path}/{name}", options)
        found = api.ask("GET", f"{path}/{name}").obj["metadata"].get("finalizers")
        assert found == (["foregroundDeletion"] if finalizers else None)


def test_topology_that_is_dropped_counts_as_a_change_of_a_slice() -> None:
    api, path = Api(), "/apis/discovery.k8s.io/v1/namespaces/golden-ns/endpointslices"
    point = {"addresses": ["1.2.3.4"]}
    api.ask("POST", path, {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [point]})
    patch = {"endpoints": [{**point, "deprecatedTopology": {"a": "b"}}]}
    reply = api.ask("PATCH", f"{path}/s", patch, MERGE)
    assert (reply.obj["metadata"]["generation"], reply.obj["endpoints"][0]["addresses"]) == (2, ["1.2.3.4"])
    assert "deprecatedTopology" not in reply.obj["endpoints"][0]


def test_empty_bundle_counts_as_a_change_of_webhooks() -> None:
    api, path = Api(), "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    client = {"url": "https://127.0.0.1:1/x"}
    hook = {
        "name": "a.example.com",
        "clientConfig": client,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    api.ask("POST", path, {"metadata": {"name": "w"}, "webhooks": [hook]})
    for sent, generation in ((client, 1), ({**client, "caBundle": ""}, 2)):
        reply = api.ask("PATCH", f"{path}/w", {"webhooks": [{**hook, "clientConfig": sent}]}, MERGE)
        assert reply.obj["metadata"]["generation"] == generation
