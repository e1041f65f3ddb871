"""Server-side apply: merging, removal, ownership of fields, and conflicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sim.api.ownership.apply import paths
from sim.api.ownership.differences import path_element
from sim.api.ownership.field_sets import of_paths
from sim.api.ownership.typed_values import element_text, merge, type_errors, without
from sim.api.scheme.scheme import Scheme
from sim.api.types import Reply
from sim.ident import NAMES
from sim.units import SECOND
from tests.unit.sim.api.golden_api import Api, whole

CORE, APPS = "/api/v1/namespaces/golden-ns", "/apis/apps/v1/namespaces/golden-ns"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
POD = Scheme(NAMES["kubernetes"]).resource("pods").schema
LABELS = {"a": "b"}


def config_map(data: Any = None, **metadata: Any) -> dict[str, Any]:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", **metadata}}
    return obj if data is None else {**obj, "data": data}


def deployment(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec},
    }


class Applier:
    """Several managers of one object."""

    def __init__(self, path: str = f"{CORE}/configmaps/m") -> None:
        self.api = Api()
        self.path = path

    def apply(self, manager: str, obj: Any, options: str = "", subresource: str = "") -> Reply:
        path = f"{self.path}{subresource}?fieldManager={manager}{options}"
        return self.api.ask("PATCH", path, obj, APPLY)

    def update(self, manager: str, patch: Any) -> Reply:
        return self.api.ask("PATCH", f"{self.path}?fieldManager={manager}", patch, MERGE)

    def get(self) -> Any:
        return whole(self.api.ask("GET", self.path))

    def owners(self) -> dict[str, Any]:
        """Fields by manager and operation."""
        entries = self.get()["metadata"].get("managedFields", ())
        return {f"{entry['manager']} {entry['operation']}": entry["fieldsV1"] for entry in entries}


def causes(reply: Reply) -> list[tuple[str, str]]:
    assert (reply.code, reply.reason) == (409, "Conflict")
    listed = reply.body["details"]["causes"]
    assert {cause["reason"] for cause in listed} == {"FieldManagerConflict"}
    return [(cause["field"], cause["message"]) for cause in listed]


def test_the_first_apply_creates_and_the_same_again_writes_nothing() -> None:
    maps = Applier()
    assert maps.apply("a", config_map({"k": "v"})).code == 201
    before = maps.get()
    assert maps.owners() == {"a Apply": {"f:data": {"f:k": {}}}}
    assert maps.apply("a", config_map({"k": "v"})).code == 200
    assert maps.get() == before


def clocked(apps: Applier) -> Callable[[], None]:
    """Lets a second pass when called."""
    now = [1_700_000_000]
    apps.api.registry = replace(apps.api.registry, wall_us=lambda: now[0] * SECOND)

    def passes() -> None:
        now[0] += 1

    return passes


def test_order_of_owned_items_and_reset_fields_change_nothing() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    passes = clocked(apps)
    body = deployment()
    containers = [{"name": name, "image": "i"} for name in "cd"]
    body["spec"]["template"]["spec"]["containers"] = containers
    assert apps.apply("a", body).code == 201
    before = apps.get()
    passes()
    containers.reverse()
    assert apps.apply("a", {**body, "status": {"replicas": 7}}).code == 200
    assert apps.get() == before


def test_an_apply_of_the_same_in_other_words_is_written_if_its_time_moves_its_entry() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    passes = clocked(apps)
    body = deployment()
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000m"}}
    assert apps.apply("a", body).code == 201
    passes()
    first = apps.get()
    assert apps.apply("a", body).code == 200 and apps.get() == first
    apps.apply("b", {**deployment(), "spec": {"minReadySeconds": 1}})
    second = apps.get()
    passes()
    assert apps.apply("a", body).code == 200
    third = apps.get()
    assert [e["manager"] for e in third["metadata"]["managedFields"]] == ["b", "a"]
    assert third["metadata"]["resourceVersion"] != second["metadata"]["resourceVersion"]
    assert third["spec"] == second["spec"]


def test_apply_of_what_the_server_restores_renews_a_time() -> None:
    """As by manifests that say `creationTimestamp: null`."""
    maps = Applier()
    passes = clocked(maps)
    config = config_map({"k": "v"}, creationTimestamp=None)
    assert maps.apply("a", config).code == 201
    before = maps.get()
    passes()
    assert maps.apply("a", config).code == 200
    assert maps.get()["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]


def test_null_is_applied_each_time_and_conflicts_with_its_earlier_applier() -> None:
    maps = Applier()
    null = config_map({"k": "v"}, labels=None)
    assert maps.apply("a", null).code == 201
    assert maps.apply("a", null).code == 200
    assert causes(maps.apply("b", null)) == [(".metadata.labels", 'conflict with "a"')]
    assert causes(maps.apply("b", {**config_map(), "data": None, "metadata": null["metadata"]}))
    assert maps.apply("b", config_map({"k": "v"})).code == 200


def test_another_managers_value_is_a_conflict_until_it_is_forced() -> None:
    """Timing case 55."""
    apps = Applier(f"{APPS}/deployments/d")
    assert apps.apply("a", deployment(replicas=3)).code == 201
    assert causes(apps.apply("b", deployment(replicas=5))) == [(".spec.replicas", 'conflict with "a"')]
    assert apps.apply("b", deployment(replicas=5), "&force=true").code == 200
    assert "f:replicas" not in apps.owners()["a Apply"]["f:spec"]
    assert "f:replicas" in apps.owners()["b Apply"]["f:spec"]
    assert apps.apply("a", deployment()).code == 200
    assert apps.get()["spec"]["replicas"] == 5


def test_several_conflicts_are_listed_manager_by_manager() -> None:
    maps = Applier()
    maps.apply("a", config_map({"k": "v", "l": "m"}))
    maps.update("u", {"data": {"n": "o"}})
    reply = maps.apply("b", config_map({"k": "1", "l": "1", "n": "1"}))
    assert causes(reply) == [
        (".data.k", 'conflict with "a"'),
        (".data.l", 'conflict with "a"'),
        (".data.n", 'conflict with "u" using v1'),
    ]
    assert reply.message == (
        'Apply failed with 3 conflicts: conflicts with "a":\n- .data.k\n- .data.l\n'
        'conflicts with "u" using v1:\n- .data.n'
    )


def test_of_one_managers_conflicts_those_of_a_subresource_come_first() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    apps.apply("a", deployment())
    for where, name in (("", "main"), ("/status", "sub")):
        patch = {"metadata": {"annotations": {name: "1"}}}
        assert apps.api.ask("PATCH", f"{apps.path}{where}?fieldManager=u", patch, MERGE).code == 200
    body = deployment()
    body["metadata"]["annotations"] = {"main": "2", "sub": "2"}
    assert apps.apply("b", body).message == (
        'Apply failed with 2 conflicts: conflicts with "u" with subresource "status" using apps/v1:\n'
        '- .metadata.annotations.sub\nconflicts with "u" using apps/v1:\n- .metadata.annotations.main'
    )


def test_field_no_longer_applied_is_removed_unless_another_manager_owns_it() -> None:
    maps = Applier()
    maps.apply("a", config_map({"mine": "1", "shared": "1"}, labels=LABELS))
    maps.apply("b", config_map({"shared": "1"}))
    maps.update("u", {"data": {"theirs": "1"}})
    maps.apply("a", config_map())
    obj = maps.get()
    assert obj["data"] == {"shared": "1", "theirs": "1"}
    assert "labels" not in obj["metadata"]
    assert sorted(maps.owners()) == ["b Apply", "u Update"]


def test_an_update_takes_a_field_from_its_applier() -> None:
    maps = Applier()
    maps.apply("a", config_map({"k": "v", "l": "m"}))
    maps.update("u", {"data": {"k": "w"}})
    assert maps.owners() == {"a Apply": {"f:data": {"f:l": {}}}, "u Update": {"f:data": {"f:k": {}}}}


def test_items_of_keyed_lists_are_applied_one_by_one() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    apps.apply("a", deployment())
    side = {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}
    body = {**deployment(), "spec": side}
    assert apps.apply("b", body).code == 200
    containers = apps.get()["spec"]["template"]["spec"]["containers"]
    assert [c["name"] for c in containers] == ["c", "side"]
    assert apps.apply("b", {**body, "spec": {}}).code == 200
    assert [c["name"] for c in apps.get()["spec"]["template"]["spec"]["containers"]] == ["c"]


def test_a_status_is_applied_beside_its_main_resource() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    apps.apply("a", deployment(replicas=2))
    body = {**deployment(replicas=9), "status": {"observedGeneration": 7}}
    assert apps.apply("a", body, subresource="/status").code == 200
    obj = apps.get()
    assert (obj["spec"]["replicas"], obj["status"]["observedGeneration"]) == (2, 7)
    entries = [e for e in obj["metadata"]["managedFields"] if e.get("subresource") == "status"]
    assert [e["fieldsV1"] for e in entries] == [{"f:status": {"f:observedGeneration": {}}}]


def test_an_applied_ephemeral_container_is_there_and_nobodys() -> None:
    pods = Applier(f"{CORE}/pods/p")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    container = {"name": "c", "image": "i"}
    pods.apply("a", {**pod, "spec": {"automountServiceAccountToken": False, "containers": [container]}})
    before = pods.get()["metadata"]["managedFields"]
    body = {**pod, "spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}
    assert pods.apply("b", body, subresource="/ephemeralcontainers").code == 200
    after = pods.get()
    assert [c["name"] for c in after["spec"]["ephemeralContainers"]] == ["e"]
    assert after["metadata"]["managedFields"] == before


def test_an_applied_scale_conflicts_with_the_workloads_applier() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    apps.apply("a", deployment(replicas=2))
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "d"},
        "spec": {"replicas": 4},
    }
    assert causes(apps.apply("s", scale, subresource="/scale")) == [(".spec.replicas", 'conflict with "a"')]
    assert apps.apply("s", scale, "&force=true", "/scale").code == 200
    assert apps.get()["spec"]["replicas"] == 4
    assert causes(apps.apply("a", deployment(replicas=2))) == [
        (".spec.replicas", 'conflict with "s" with subresource "scale"')
    ]


def scaled(apps: Applier, replicas: int) -> Reply:
    """A merge patch of the scale by "s"."""
    body = {"spec": {"replicas": replicas}}
    return apps.api.ask("PATCH", f"{apps.path}/scale?fieldManager=s", body, MERGE)


def entries(apps: Applier) -> list[tuple[str, str, bool, bool]]:
    """(manager, subresource, whether it has a time, whether the number of replicas is its) in
    order.
    """
    listed = apps.get()["metadata"]["managedFields"]
    return [
        (e["manager"], e.get("subresource", ""), "time" in e, "f:replicas" in e["fieldsV1"].get("f:spec", {}))
        for e in listed
    ]


def test_a_scale_takes_the_number_and_has_no_time() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    apps.api.ask("POST", f"{APPS}/deployments?fieldManager=c", deployment(replicas=2))
    assert scaled(apps, 3).code == 200
    assert entries(apps) == [("s", "scale", False, True), ("c", "", True, False)]
    assert scaled(apps, 0).code == 200  # which a Scale leaves out: taken away, not set
    assert entries(apps) == [("c", "", True, False)]
    assert scaled(apps, 1).code == 200 and entries(apps) == [("c", "", True, False)]


def test_unchanged_scale_takes_the_number_from_updaters_but_not_from_appliers() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    apps.api.ask("POST", f"{APPS}/deployments?fieldManager=c", deployment(replicas=2))
    apps.apply("a", deployment(replicas=2))
    before = apps.get()["metadata"]["resourceVersion"]
    assert scaled(apps, 2).code == 200 and apps.get()["metadata"]["resourceVersion"] != before
    # Of two entries of one name the next writer reads the later one.
    assert [e for e in entries(apps) if e[3]] == [("a", "", False, True), ("c", "", False, True)]
    apps.update("u", {"metadata": {"labels": {"x": "y"}}})
    assert [e for e in entries(apps) if e[3]] == [("a", "", False, True)]


def test_an_applied_scale_names_the_version_of_scales() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    apps.api.ask("POST", f"{APPS}/deployments?fieldManager=c", deployment(replicas=2))
    scaled(apps, 3)
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}}
    refused = apps.apply("a", {**scale, "spec": {"replicas": 4}}, subresource="/scale")
    assert causes(refused) == [
        (".spec.replicas", 'conflict with "s" with subresource "scale" using autoscaling/v1')
    ]
    scaled(apps, 0)  # without an owner now
    refused = apps.apply("a", {**scale, "spec": {"replicas": 4}}, subresource="/scale")
    assert refused.code == 200 and entries(apps)[0] == ("a", "scale", False, True)


def test_entry_of_another_version_owns_and_disputes_fields_by_their_names_there() -> None:
    where = "/apis/autoscaling/{}/namespaces/golden-ns/horizontalpodautoscalers"

    def scaler(version: str, **spec: Any) -> dict[str, Any]:
        about = {"apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler"}
        return {**about, "metadata": {"name": "h"}, "spec": {"maxReplicas": 3, **spec}}

    def share(percent: int) -> list[Any]:
        target = {"type": "Utilization", "averageUtilization": percent}
        return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]

    def owned(manager: str) -> Any:
        return second.owners().get(f"{manager} Update", {}).get("f:spec", {})

    first, second = Applier(f"{where.format('v1')}/h"), Applier(f"{where.format('v2')}/h")
    first.api = second.api
    made = scaler("v2", metrics=share(50), scaleTargetRef={"kind": "Deployment", "name": "d"})
    assert second.api.ask("POST", f"{where.format('v2')}?fieldManager=a", made).code == 201
    assert "f:metrics" in owned("a")
    assert first.update("b", {"spec": {"targetCPUUtilizationPercentage": 60}}).code == 200
    assert "f:metrics" not in owned("a") and owned("b") == {"f:targetCPUUtilizationPercentage": {}}
    assert causes(second.apply("s", scaler("v2", metrics=share(70)))) == [
        (".spec.targetCPUUtilizationPercentage", 'conflict with "b" using autoscaling/v1')
    ]
    assert second.apply("s", scaler("v2", metrics=share(70)), "&force=true").code == 200
    assert owned("b") == {} and first.get()["spec"]["targetCPUUtilizationPercentage"] == 70
    assert causes(first.apply("t", scaler("v1", targetCPUUtilizationPercentage=80))) == [
        (".spec.metrics", 'conflict with "s"')
    ]


def test_a_secrets_plain_text_is_stored_as_data_and_owned_as_it_was_given() -> None:
    secrets = Applier(f"{CORE}/secrets/s")
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "plain"}}
    assert secrets.apply("a", body).code == 201
    assert secrets.get()["data"] == {"a": "cGxhaW4="} and "stringData" not in secrets.get()
    assert secrets.owners() == {"a Apply": {"f:stringData": {"f:a": {}}}}
    secrets.update("u", {"stringData": {"b": "c"}})
    assert secrets.get()["data"] == {"a": "cGxhaW4=", "b": "Yw=="}
    assert secrets.owners()["u Update"] == {"f:data": {"f:b": {}}}


def test_dry_run_reports_conflicts_and_stores_nothing() -> None:
    maps = Applier()
    assert maps.apply("a", config_map({"k": "v"}), "&dryRun=All").code == 201
    assert maps.api.ask("GET", maps.path).code == 404
    maps.apply("a", config_map({"k": "v"}))
    assert causes(maps.apply("b", config_map({"k": "w"}), "&dryRun=All"))
    assert maps.apply("b", config_map({"k": "w"}), "&dryRun=All&force=true").obj["data"] == {"k": "w"}
    assert maps.get()["data"] == {"k": "v"}


def test_unowned_fields_belong_to_before_first_apply() -> None:
    maps = Applier()
    maps.api.ask("POST", f"{CORE}/configmaps", config_map({"k": "v"}))
    maps.update("u", {"metadata": {"managedFields": [{}]}})
    assert maps.owners() == {}
    assert causes(maps.apply("a", config_map({"k": "w"}))) == [
        (".data.k", 'conflict with "before-first-apply" using v1')
    ]


def test_kubectl_takes_over_what_it_applied_on_the_clients_side() -> None:
    maps = Applier()
    annotation = NAMES["kubernetes"].annotation_last_applied
    text = json.dumps(config_map({"k": "v", "l": "m"}))
    given = config_map({"k": "v", "l": "m"}, annotations={annotation: text})
    maps.api.ask("POST", f"{CORE}/configmaps?fieldManager=kubectl-client-side-apply", given)
    assert maps.apply("somebody", config_map({"k": "w"})).code == 409
    assert maps.apply("kubectl", config_map({"k": "w", "l": "m"})).code == 200
    told = json.loads(maps.get()["metadata"]["annotations"][annotation])
    assert told["data"] == {"k": "w", "l": "m"}
    maps.update("u", {"data": {"k": "x"}})
    assert maps.apply("kubectl", config_map({"k": "y", "l": "m"})).code == 409


def test_last_applied_annotation_is_updated_even_if_nothing_else_changes() -> None:
    maps = Applier()
    annotation = NAMES["kubernetes"].annotation_last_applied
    config = config_map({"k": "v"})
    told = config_map(config["data"], annotations={annotation: json.dumps(config, indent=1)})
    maps.api.ask("POST", f"{CORE}/configmaps?fieldManager=kubectl-client-side-apply", told)
    assert maps.apply("kubectl", config).code == 200
    text = maps.get()["metadata"]["annotations"][annotation]
    assert text.endswith("\n") and json.loads(text) == config
    before = maps.get()
    assert maps.apply("kubectl", config).code == 200 and maps.get() == before


@pytest.mark.parametrize(
    "told",
    [
        "",
        "{",
        "null",
        "[]",
        json.dumps({**config_map({"k": "v"}), "apiVersion": "v0"}),
        json.dumps({**config_map({"k": "v"}), "kind": ""}),
        json.dumps(config_map({"k": "v", "l": 1})),
    ],
)
def test_last_applied_annotation_that_is_no_object_of_the_version_says_nothing(told: str) -> None:
    maps = Applier()
    annotation = NAMES["kubernetes"].annotation_last_applied
    given = config_map({"k": "v"}, annotations={annotation: told})
    maps.api.ask("POST", f"{CORE}/configmaps?fieldManager=kubectl-client-side-apply", given)
    assert causes(maps.apply("kubectl", config_map({"k": "w"})))


def test_duplicate_names_in_a_list_drop_all_ownership() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    body, twice = deployment(), [{"name": "E", "value": "1"}, {"name": "E", "value": "2"}]
    apps.apply("a", body)
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["env"] = twice
    body["metadata"]["resourceVersion"] = apps.get()["metadata"]["resourceVersion"]
    assert apps.api.ask("PUT", apps.path, body).code == 200
    assert apps.get()["metadata"]["managedFields"] == []
    refused = apps.apply("a", deployment())
    assert (refused.code, refused.message) == (
        500,
        "failed to create manager for existing fields: failed to convert new object (golden-ns/d; apps/v1, "
        'Kind=Deployment) to smd typed: .spec.template.spec.containers[name="c"].env: duplicate entries for key '
        '[name="E"]',
    )
    made = apps.api.ask("POST", f"{APPS}/deployments", {**body, "metadata": {"name": "e"}})
    assert made.code == 201 and whole(made)["metadata"]["managedFields"] == []


def test_item_without_a_name_and_set_inside_an_atomic_list_drop_ownership() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    unnamed = {"template": {**deployment()["spec"]["template"]}}
    unnamed["template"]["spec"] = {**unnamed["template"]["spec"], "imagePullSecrets": [{}]}
    made = apps.api.ask("POST", f"{APPS}/deployments", deployment(**unnamed))
    assert made.code == 201 and whole(made)["metadata"]["managedFields"] == []
    assert 'omits key field "name"' in apps.apply("a", deployment()).message
    slices = "/apis/discovery.k8s.io/v1/namespaces/golden-ns/endpointslices"
    obj = {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [{"addresses": ["1.2.3.4"] * 2}]}
    made = apps.api.ask("POST", slices, obj)
    assert made.code == 201 and whole(made)["metadata"]["managedFields"] == []


def test_scalar_without_a_type_accepts_a_map_until_it_is_converted() -> None:
    apps = Applier(f"{APPS}/deployments/d")
    body = deployment()
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": {"x": 1}}}
    where = (
        "failed to convert new object (/d; apps/v1, Kind=Deployment) to proper version: unable to convert "
    )
    where += "unstructured object to apps/v1, Kind=Deployment: "
    reply = apps.apply("a", body)
    assert (reply.code, reply.message.startswith(f"{where}quantities must match")) == (500, True)
    probe = {"httpGet": {"path": "/", "port": {"x": 1}}}
    body["spec"]["template"]["spec"]["containers"][0] = {"name": "c", "image": "i", "livenessProbe": probe}
    assert (
        apps.apply("a", body).message == f"{where}json: cannot unmarshal object into Go value of type int32"
    )


def test_create_by_apply_keeps_what_only_a_post_removes() -> None:
    one = Applier()
    dry = one.apply("a", config_map(resourceVersion="1", selfLink="x"), "&dryRun=All")
    assert (dry.code, whole(dry)["metadata"]["resourceVersion"]) == (201, "1")
    assert whole(dry)["metadata"]["selfLink"] == "x"
    made = whole(one.apply("a", config_map(selfLink="x", deletionTimestamp="2020-01-01T00:00:00Z")))
    assert made["metadata"]["deletionTimestamp"] == "2020-01-01T00:00:00Z"
    assert "selfLink" not in made["metadata"]
    assert (
        whole(one.apply("b", {**config_map(), "metadata": None}, "&dryRun=All"))["metadata"]["managedFields"]
        == made["metadata"]["managedFields"]
    )


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            {**config_map(), "apiVersion": "v2"},
            400,
            "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
        ),
        (
            {**config_map(), "apiVersion": 1},
            400,
            "Incorrect version specified in apply patch. Specified patch version: , expected: v1",
        ),
        (
            {**config_map(), "kind": 1},
            500,
            "failed to create typed patch object (/m; /v1, Kind=): no corresponding type for /v1, Kind=",
        ),
        (config_map(managedFields=[]), 400, "metadata.managedFields must be nil"),
        (
            config_map({"k": 5}),
            500,
            "failed to create typed patch object (/m; /v1, Kind=ConfigMap): "
            ".data.k: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (
            {**config_map(), "nope": 1},
            500,
            "failed to create typed patch object (/m; /v1, Kind=ConfigMap): .nope: field not declared in schema",
        ),
        (
            config_map(name="other"),
            400,
            "the name of the object (other) does not match the name on the URL (m)",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(body: Any, code: int, message: str) -> None:
    reply = Applier().apply("a", body)
    assert (reply.code, reply.message) == (code, message)


# --- the parts ------------------------------------------------------------------------------------


def containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": name} for name in names]}}


@pytest.mark.parametrize(
    ("live", "given", "merged"),
    [
        ("abc", "b", "abc"),
        ("abc", "ca", "bca"),
        ("ac", "abc", "abc"),
        ("ab", "xbya", "xbya"),
        ("", "ab", "ab"),
    ],
)
def test_merged_items_keep_the_configurations_order(live: str, given: str, merged: str) -> None:
    out: Any = merge(POD, containers(*live), containers(*given))
    assert "".join(c["name"] for c in out["spec"]["containers"]) == merged


def test_an_atomic_list_is_replaced_as_a_whole() -> None:
    live = {"spec": {"containers": [{"name": "c", "args": ["1", "2"]}]}}
    given = {"spec": {"containers": [{"name": "c", "args": ["3"]}]}}
    assert merge(POD, live, given) == given


def test_taking_out_shares_what_stays() -> None:
    live: Any = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"nodeName": "n"}}
    left: Any = without(POD, live, of_paths(("metadata", "labels", "a")))
    assert left == {"metadata": {"labels": {"b": "2"}}, "spec": {"nodeName": "n"}}
    assert left["spec"] is live["spec"]
    # no such field of a pod
    assert without(POD, live["metadata"], of_paths(("labels",))) == live["metadata"]


def test_two_items_with_one_key_are_reported() -> None:
    assert type_errors(POD, containers("c", "c")) == [
        '.spec.containers: duplicate entries for key [name="c"]'
    ]


def test_conflict_paths_share_their_arrays_as_gos_slices_do() -> None:
    fields = of_paths(("a", "b", "c", "x"), ("a", "b", "c", "y"), ("a", "d"))
    assert paths(fields) == [".a.d", ".a.b.c.y", ".a.b.c.y"]


def test_key_that_is_null_is_part_of_the_path_of_its_item() -> None:
    containers = POD.properties["spec"].properties["containers"].items
    assert containers is not None
    ports = containers.properties["ports"]
    assert path_element(ports, {"containerPort": 80, "protocol": None}) == (
        'k:{"containerPort":80,"protocol":null}'
    )
    assert element_text('k:{"a":{"x":1},"b":[1,"c"]}') == '[a=x=1,b=[1,"c"]]'


def test_the_share_that_the_first_version_sets_by_default_is_owned():
    spec = {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}
    where = "/apis/autoscaling/v1/namespaces/golden-ns/horizontalpodautoscalers"
    made = Api().ask("POST", where, {"metadata": {"name": "h"}, "spec": spec})
    fields = whole(made)["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert fields["f:targetCPUUtilizationPercentage"] == {}
