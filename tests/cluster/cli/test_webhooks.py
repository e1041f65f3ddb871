"""Admission webhooks that programs of the library answer, on a whole cluster in virtual time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from sim.api.types import Obj, Reply
from sim.app.cluster import Cluster
from sim.errors import InputError
from sim.faults.surroundings.webhook import DENY, DOWN, SLOW, TARGET_PREFIX
from sim.ident import NAMES
from sim.scenario.compile import plan_of_settings
from sim.units import MS, SECOND
from tests.actor.apiserver.cluster import ADMIN, request

N = NAMES["orch"]
GROUP = N.api_version("admissionregistration", "v1")
URL = "https://hooks.example.com/a"
RULE: Obj = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


def configuration(kind: str, *hooks: Obj, name: str = "w") -> Obj:
    filled = [
        {
            "name": "a.example.com",
            "clientConfig": {"url": URL},
            "rules": [RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **hook,
        }
        for hook in hooks
    ]
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "webhooks": filled}


def validating(**hook: Any) -> Obj:
    return configuration("ValidatingWebhookConfiguration", hook)


def mutating(*hooks: Obj) -> Obj:
    return configuration("MutatingWebhookConfiguration", *hooks)


def labelled(obj: Obj) -> dict[str, str]:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels


def adds(label: str, value: str = "x") -> Callable[[Obj], Obj]:
    """A program that adds a label."""

    def decide(review: Obj) -> Obj:
        found = review["request"]["object"]["metadata"].get("labels")
        path, given = (
            ("/metadata/labels", {label: value}) if found is None else (f"/metadata/labels/{label}", value)
        )
        return {"allowed": True, "patch": [{"op": "add", "path": path, "value": given}]}

    return decide


@dataclass
class World:
    """A cluster, with the reviews that its programs got."""

    cluster: Cluster
    reviews: list[Obj] = field(default_factory=list)

    def answer(self, response: Obj | Callable[[Obj], Obj], url: str = URL, latency: str = "2ms") -> None:
        def decide(review: Obj) -> Obj:
            self.reviews.append(review)
            return response(review) if callable(response) else response

        self.cluster.add_webhook(url, decide, latency=latency)

    async def ask(
        self, verb: str, plural: str, name: str = "", wait_us: int = 20 * SECOND, **kw: Any
    ) -> Reply:
        replies: list[Reply] = []
        namespace = kw.pop("namespace", "default")
        server = self.cluster.api_servers["apiserver-0"]
        server.handle(request(verb, plural, namespace, name, user=ADMIN, **kw), replies.append)
        end_us = self.cluster.kernel.now_us + wait_us
        while not replies and self.cluster.kernel.now_us < end_us:
            await self.cluster.run_for(MS)
        (reply,) = replies
        return reply

    async def create(self, name: str = "m", labels: dict[str, str] | None = None, **kw: Any) -> Reply:
        metadata = {"name": name, **({"labels": labels} if labels else {})}
        return await self.ask("create", "configmaps", body={"metadata": metadata}, **kw)

    async def configure(self, obj: Obj) -> None:
        plural = obj["kind"].lower() + "s"
        reply = await self.ask("create", plural, body=obj)
        assert reply.ok, reply.message


@asynccontextmanager
async def world(*configurations: Obj) -> AsyncIterator[World]:
    async with Cluster() as cluster:
        found = World(cluster)
        await cluster.run_for("2s")
        for each in configurations:
            await found.configure(each)
        yield found


async def test_review_holds_the_request_and_a_denial_is_its_answer() -> None:
    async with world(validating()) as found:
        found.answer({"allowed": False, "status": {"message": "no", "code": 418}, "warnings": ["careful"]})
        refused = await found.create()
        assert (refused.code, refused.message) == (
            418,
            'admission webhook "a.example.com" denied the request: no',
        )
        assert refused.warnings == ("careful",)
        asked = found.reviews[0]["request"]
        assert (asked["operation"], asked["name"], asked["namespace"]) == ("CREATE", "m", "default")
        assert asked["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
        assert asked["object"]["kind"] == "ConfigMap" and asked["oldObject"] is None
        assert asked["userInfo"] == {"username": "admin", "groups": ["system:masters"]}


@pytest.mark.parametrize(
    ("status", "text"),
    [({"reason": "Odd"}, "denied the request: Odd"), ({}, "denied the request without explanation")],
)
async def test_denial_without_a_message_names_reason_or_none(status: Obj, text: str) -> None:
    async with world(validating()) as found:
        found.answer({"allowed": False, "status": status})
        refused = await found.create()
        assert refused.code == 400 and refused.message.endswith(text)


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        ([{"op": "remove", "path": "/nope"}], "Unable to remove nonexistent key: nope: missing value"),
        ([{"op": "foo"}], "Unexpected kind: foo"),
        (
            [{"op": "add", "path": "/data", "value": 5}],
            "cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string",
        ),
        ({}, "cannot unmarshal object into Go value of type jsonpatch.Patch"),
    ],
)
async def test_patch_that_cannot_be_applied_is_an_internal_error(operations: Any, text: str) -> None:
    def decide(review: Obj) -> Obj:
        unknown = [{"op": "add", "path": "/zz", "value": 5}]
        given = operations if review["request"]["name"] == "m" else unknown
        return {"allowed": True, "patchType": "JSONPatch", "patch": json.dumps(given).encode()}

    async with world(mutating({})) as found:
        found.answer(decide)
        refused = await found.create()
        assert refused.code == 500 and refused.message.endswith(text), refused.message
        made = await found.create("other")
        assert made.ok and "zz" not in made.obj


async def test_update_and_delete_are_asked_with_the_old_object() -> None:
    async with world() as found:
        await found.create()
        await found.configure(validating())
        found.answer({"allowed": True})
        patch = {"metadata": {"labels": {"a": "b"}}}
        media = N.media_merge_patch
        assert (await found.ask("patch", "configmaps", "m", body=patch, content_type=media)).ok
        assert (await found.ask("delete", "configmaps", "m")).ok
        update, delete = (review["request"] for review in found.reviews)
        assert labelled(update["object"]) == {"a": "b"} and labelled(update["oldObject"]) == {}
        assert delete["operation"] == "DELETE" and delete["object"] is None
        assert labelled(delete["oldObject"]) == {"a": "b"}


async def test_mutating_webhooks_see_the_changes_of_those_before() -> None:
    second = {"name": "b.example.com", "clientConfig": {"url": f"{URL}/2"}}
    async with world(mutating({}, second)) as found:
        found.answer(adds("one"))
        found.answer(adds("two"), f"{URL}/2")
        made = await found.create()
        assert labelled(made.obj) == {"one": "x", "two": "x"}
        assert [labelled(review["request"]["object"]) for review in found.reviews] == [{}, {"one": "x"}]


async def test_reinvocable_webhook_is_called_again_after_a_later_change() -> None:
    second = {"name": "b.example.com", "clientConfig": {"url": f"{URL}/2"}}
    async with world(mutating({"reinvocationPolicy": "IfNeeded"}, second)) as found:
        found.answer({"allowed": True})
        found.answer(adds("two"), f"{URL}/2")
        await found.create()
        seen = [labelled(review["request"]["object"]) for review in found.reviews]
        assert seen == [{}, {}, {"two": "x"}]


async def test_patch_of_a_delete_is_an_error() -> None:
    async with world() as found:
        await found.create()
        await found.configure(mutating({}))
        found.answer({"allowed": True, "patch": [{"op": "add", "path": "/a", "value": 1}]})
        refused = await found.ask("delete", "configmaps", "m")
        assert refused.code == 500
        assert "attempted to modify the object, which is not supported for this operation" in refused.message


async def test_late_answer_is_a_failure_after_the_timeout() -> None:
    async with world(validating(timeoutSeconds=3)) as found:
        found.answer({"allowed": True}, latency="5s")
        began_us = found.cluster.kernel.now_us
        refused = await found.create()
        assert 3 * SECOND <= found.cluster.kernel.now_us - began_us < 3 * SECOND + 100 * MS
        assert refused.message == (
            'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: '
            f'Post "{URL}?timeout=3s": context deadline exceeded'
        )
        assert found.reviews == []


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
async def test_failure_policy_decides_about_an_unreachable_webhook(policy: str, code: int) -> None:
    async with world(validating(failurePolicy=policy)) as found:
        assert (await found.create()).code == code


async def test_invalid_answer_is_a_failed_call() -> None:
    async with world(validating()) as found:
        found.answer({"allowed": True, "uid": "x"})
        assert "received invalid webhook response: expected response.uid=" in (await found.create()).message


@pytest.mark.parametrize(
    ("hook", "is_called"),
    [
        ({"rules": [{**RULE, "operations": ["UPDATE"]}]}, False),
        ({"rules": [{**RULE, "resources": ["*"]}]}, True),
        ({"rules": [{**RULE, "resources": ["configmaps/*"]}]}, True),
        ({"rules": [{**RULE, "scope": "Cluster"}]}, False),
        ({"objectSelector": {"matchLabels": {"hit": "x"}}}, True),
        ({"objectSelector": {"matchLabels": {"hit": "y"}}}, False),
        ({"namespaceSelector": {"matchLabels": {N.label_metadata_name: "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {N.label_metadata_name: "other"}}}, False),
    ],
)
async def test_rules_and_selectors_choose_requests(hook: Obj, is_called: bool) -> None:
    async with world(validating(**hook)) as found:
        found.answer({"allowed": True})
        assert (await found.create(labels={"hit": "x"})).ok
        assert bool(found.reviews) is is_called


@pytest.mark.parametrize(("policy", "version"), [("Equivalent", "v1"), ("Exact", "")])
async def test_equivalent_version_is_converted_for_the_webhook(policy: str, version: str) -> None:
    rule = {**RULE, "apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"]}
    async with world(validating(matchPolicy=policy, rules=[rule])) as found:
        found.answer({"allowed": True})
        target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
        cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
        spec = {
            "maxReplicas": 2,
            "scaleTargetRef": target,
            "metrics": [{"type": "Resource", "resource": cpu}],
        }
        body = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h"},
            "spec": spec,
        }
        asked = request("create", "horizontalpodautoscalers", "default", user=ADMIN, body=body)
        asked.version = "v2"
        replies: list[Reply] = []
        found.cluster.api_servers["apiserver-0"].handle(asked, replies.append)
        await found.cluster.run_for("1s")
        assert replies[0].ok, replies[0].message
        seen = [review["request"] for review in found.reviews]
        assert [each["resource"]["version"] for each in seen] == ([version] if version else [])
        for each in seen:
            assert each["requestResource"]["version"] == "v2"
            assert each["object"]["spec"]["targetCPUUtilizationPercentage"] == 50


async def test_dry_run_reaches_webhooks_and_stores_nothing() -> None:
    async with world(validating(sideEffects="NoneOnDryRun")) as found:
        found.answer({"allowed": True})
        assert (await found.create(options={"dryRun": "All"})).ok
        assert found.reviews[0]["request"]["dryRun"] is True
        assert found.cluster.get("configmaps", "m") is None


async def test_configurations_themselves_reach_no_webhook() -> None:
    everything = {**RULE, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    async with world(validating(rules=[everything])) as found:
        plural = "validatingwebhookconfigurations"
        assert (await found.ask("delete", plural, "w")).ok
        assert (await found.create()).ok


@pytest.mark.parametrize(
    ("dark", "codes"), [([], {201}), (["node-0"], {201, 500}), (["node-0", "node-1"], {500})], ids=str
)
async def test_call_of_an_endpoint_on_a_dark_machine_times_out(dark: list[str], codes: set[int]) -> None:
    client = {"service": {"name": "hook", "namespace": "default", "port": 443}}
    async with world(validating(clientConfig=client, timeoutSeconds=2)) as found:
        addresses = [{"ip": f"10.1.0.{number}", "nodeName": f"node-{number}"} for number in range(2)]
        subsets = [{"addresses": addresses, "ports": [{"port": 443}]}]
        for node in plan_of_settings("dark", ["cluster.nodes=[{count: 2}]"]).cluster.nodes:
            found.cluster.add_node(node)
        spec = {"ports": [{"port": 443}]}
        assert (await found.ask("create", "services", body={"metadata": {"name": "hook"}, "spec": spec})).ok
        assert (
            await found.ask("create", "endpoints", body={"metadata": {"name": "hook"}, "subsets": subsets})
        ).ok
        for node in dark:
            found.cluster.fail_node(node, "power-loss")
        before_us = found.cluster.kernel.now_us
        replies = [await found.create(f"m{number}") for number in range(8)]
        assert {reply.code for reply in replies} == codes
        failures = [reply.message for reply in replies if not reply.ok]
        assert [one for one in failures if not one.endswith("context deadline exceeded")] == []
        assert found.cluster.kernel.now_us - before_us >= len(failures) * 2 * SECOND


async def test_service_is_reached_while_it_has_a_ready_endpoint() -> None:
    client = {"service": {"name": "hook", "namespace": "default", "port": 443, "path": "/p"}}
    async with world(validating(clientConfig=client)) as found:
        url = "https://hook.default.svc:443/p?timeout=10s"
        assert f'Post "{url}": service "hook" not found' in (await found.create()).message
        spec = {"ports": [{"port": 443}], "clusterIP": "10.0.0.77"}
        assert (await found.ask("create", "services", body={"metadata": {"name": "hook"}, "spec": spec})).ok
        refused = await found.create()
        assert f'Post "{url}": dial tcp 10.0.0.77:443: connect: connection refused' in refused.message
        subsets = [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 443}]}]
        body = {"metadata": {"name": "hook"}, "subsets": subsets}
        assert (await found.ask("create", "endpoints", body=body)).ok
        assert (await found.create()).ok
        found.answer({"allowed": False}, "default/hook")
        assert (await found.create("second")).code == 400


@pytest.mark.parametrize(
    ("aspect", "value", "text"),
    [
        (DOWN, True, "connect: connection refused"),
        (SLOW, 60 * SECOND, "context deadline exceeded"),
        (DENY, True, "denied the request: denied by a fault of the scenario"),
    ],
)
async def test_fault_of_a_webhook_lasts_until_it_ends(aspect: str, value: object, text: str) -> None:
    async with world(validating()) as found:
        found.answer({"allowed": True})
        faults = found.cluster.faults
        faults.impose("broken", f"{TARGET_PREFIX}a.example.com", aspect, value)
        assert text in (await found.create()).message
        faults.lift("broken")
        assert (await found.create()).ok


async def test_addresses_of_programs_are_checked() -> None:
    async with Cluster() as cluster:
        cluster.add_webhook(URL, lambda review: {"allowed": True})
        with pytest.raises(InputError, match="there is a webhook at"):
            cluster.add_webhook(URL, lambda review: {"allowed": True})
        with pytest.raises(InputError, match="no webhook has the address 'hook'"):
            cluster.add_webhook("hook", lambda review: {"allowed": True})


async def test_reviews_of_deletions_connections_and_reviews_are_as_upstream() -> None:
    everything = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]
    async with world(validating(rules=everything)) as found:
        found.answer({"allowed": False})
        options = {"gracePeriodSeconds": 3, "propagationPolicy": "Orphan"}
        await found.ask("delete", "configmaps", name=N.config_map_root_ca, body=options)
        await found.ask("deletecollection", "configmaps", options={"gracePeriodSeconds": "5"})
        opened = {"query": "command=ls&command=-l&stdin=1&tty=false&container=c"}
        refused = await found.ask("create", "pods", name="absent", subresource="exec", options=opened)
        await found.ask("get", "services", name="s", subresource="proxy", options={"path": "/x"})
        await found.ask("create", "tokenreviews", namespace="", body={"spec": {"token": "t"}})
        await found.ask("create", "bindings", body={"metadata": {"name": "p"}, "target": {"name": "n"}})
        await found.ask("create", "namespaces", namespace="", body={"metadata": {"name": "new"}})
        reviews = [review["request"] for review in found.reviews]
        asked = [each for each in reviews if each["userInfo"]["username"] == "admin"]
        head = {"kind": "DeleteOptions", "apiVersion": N.api_version("meta", "v1")}
        assert [one["options"] for one in asked[:2]] == [
            {**head, **options},
            {**head, "gracePeriodSeconds": 5},
        ]
        assert "name" not in asked[1] and asked[1]["oldObject"] is not None
        assert refused.code == 400 and (asked[2]["operation"], asked[2]["options"]) == ("CONNECT", None)
        assert asked[2]["object"] == {
            "kind": "PodExecOptions",
            "apiVersion": "v1",
            "stdin": True,
            "container": "c",
            "command": ["ls", "-l"],
        }
        assert asked[3]["object"] == {"kind": "ServiceProxyOptions", "apiVersion": "v1", "path": "/x"}
        assert asked[4]["kind"]["kind"] == "TokenReview"
        assert asked[5]["resource"]["resource"] == "bindings" and "subResource" not in asked[5]
        assert (asked[6]["name"], asked[6]["namespace"]) == ("new", "new")


async def test_webhook_sees_a_scale_and_may_change_its_replicas() -> None:
    rules = [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["*"],
            "resources": ["deployments/scale"],
        }
    ]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    async with world(mutating({"rules": rules})) as found:
        patch = [{"op": "replace", "path": "/spec/replicas", "value": 1}]
        found.answer({"allowed": True, "patch": patch})
        assert (await found.ask("create", "deployments", body={"metadata": {"name": "d"}, "spec": spec})).ok
        body = {"metadata": {"name": "d"}, "spec": {"replicas": 2}}
        scaled = await found.ask("update", "deployments", name="d", subresource="scale", body=body)
        assert scaled.body is not None and scaled.body["spec"] == {"replicas": 1}
        seen = found.reviews[0]["request"]
        assert seen["kind"]["kind"] == seen["object"]["kind"] == "Scale"
        assert seen["object"]["spec"] == {"replicas": 2} and seen["oldObject"]["spec"] == {}


def sets(path: str, value: Any) -> Callable[[Obj], Obj]:
    """A program that sets a field of metadata, or one of the object."""
    return lambda _: {"allowed": True, "patch": [{"op": "add", "path": path, "value": value}]}


@pytest.mark.parametrize(
    ("path", "value", "code", "text"),
    [
        ("/metadata/namespace", "other", 400, "does not match the namespace sent on the request"),
        ("/metadata/resourceVersion", "7", 500, "resourceVersion should not be set on objects to be created"),
        ("/kind", "Secret", 500, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        ("/kind", "Foo", 500, 'Internal error occurred: no kind "Foo" is registered for version "v1"'),
        ("/metadata/name", "Bad_Name", 422, "metadata.name: Invalid value"),
    ],
)
async def test_webhook_cannot_make_another_object(path: str, value: str, code: int, text: str) -> None:
    async with world(mutating({})) as found:
        found.answer(sets(path, value))
        refused = await found.create()
        assert refused.code == code
        assert text in refused.message
        assert found.cluster.get("configmaps", "m") is None


async def test_webhook_may_rename_a_new_object_and_not_identify_it() -> None:
    async with world(mutating({})) as found:
        both = [*sets("/metadata/name", "n")({})["patch"], *sets("/metadata/uid", "mine")({})["patch"]]
        found.answer({"allowed": True, "patch": both})
        made = await found.create()
        assert (made.obj["metadata"]["name"], found.cluster.get("configmaps", "m")) == ("n", None)
        assert made.obj["metadata"]["uid"] != "mine"


@pytest.mark.parametrize(
    ("path", "value", "code", "text"),
    [
        ("/metadata/namespace", "other", 400, "does not match the namespace sent on the request"),
        ("/metadata/resourceVersion", "1", 409, "the object has been modified"),
        ("/metadata/resourceVersion", "x", 500, 'strconv.ParseUint: parsing "x": invalid syntax'),
        ("/metadata/name", "n", 422, "metadata.name: Invalid value"),
        ("/metadata/uid", "mine", 422, "metadata.uid: Invalid value"),
    ],
)
async def test_webhook_cannot_turn_an_update_to_another_object(
    path: str, value: str, code: int, text: str
) -> None:
    async with world(mutating({"rules": [{**RULE, "operations": ["UPDATE"]}]})) as found:
        found.answer(sets(path, value))
        made = (await found.create()).obj
        refused = await found.ask("update", "configmaps", "m", body={**made, "data": {"k": "v"}})
        assert refused.code == code, refused.message
        assert text in refused.message
