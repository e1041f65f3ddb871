"""Admission plugins in a server: what the verbs hand to them, and the plugins that write."""

from __future__ import annotations

from typing import Any

import pytest

from actors.apiserver.options import ApiServerOptions
from sim.api.admission.configuration import Configuration
from sim.api.admission.plugins.event_rate_limit import EventLimit
from sim.api.admission.quota import LimitedResource
from sim.api.types import UserInfo
from sim.units import SECOND
from tests.actor.apiserver.cluster import NAMES_ORCH, SCHEME, plane

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"nodeName": "n", "priorityClassName": "", "containers": [{"name": "c", "image": "i"}]},
}
AGENT = UserInfo(NAMES_ORCH.node_user("n"), (NAMES_ORCH.group_nodes, NAMES_ORCH.group_authenticated))
OTHER = UserInfo(NAMES_ORCH.node_user("m"), AGENT.groups)


def options(*enabled: str, **more: Any) -> ApiServerOptions:
    return ApiServerOptions(disabled_admission=("ServiceAccount",), enabled_admission=enabled, **more)


async def test_absent_namespace_is_provided_with_its_defaults() -> None:
    async with plane(options=options("NamespaceAutoProvision")) as p:
        await p.run(SECOND)
        assert (await p.ask("create", "configmaps", "new", body=MAP, options={"dryRun": "All"})).code == 404
        assert (await p.ask("get", "namespaces", name="new")).code == 404
        assert (await p.ask("create", "configmaps", "new", body=MAP)).code == 201
        found = (await p.ask("get", "namespaces", name="new")).obj
        assert found["status"] == {"phase": "Active"}
        assert found["metadata"]["labels"] == {NAMES_ORCH.label_metadata_name: "new"}
        assert (await p.ask("create", "configmaps", "new", body=MAP)).reason == "AlreadyExists"


async def test_namespace_that_cannot_be_provided_is_forbidden() -> None:
    async with plane(options=options("NamespaceAutoProvision")) as p:
        await p.run(SECOND)
        reply = await p.ask("create", "configmaps", "No_Name", body=MAP)
        assert (reply.code, reply.reason) == (403, "Forbidden")
        assert 'Namespace "No_Name" is invalid' in reply.message


async def test_every_write_is_denied_but_reads_are_not() -> None:
    async with plane(options=options("AlwaysDeny")) as p:
        await p.run(SECOND)
        reply = await p.ask("create", "configmaps", body=MAP)
        assert reply.message == 'configmaps "m" is forbidden: admission control is denying all modifications'
        assert (await p.ask("delete", "namespaces", name=NAMES_ORCH.lease_namespace)).code == 403
        assert (await p.ask("get", "namespaces", name="default")).code == 200
        review = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/"}}}
        assert (await p.ask("create", "selfsubjectaccessreviews", body=review)).code == 403


async def test_access_review_does_not_show_whether_its_namespace_exists() -> None:
    async with plane(options=options()) as p:
        await p.run(SECOND)
        spec = {"user": "ann", "resourceAttributes": {"namespace": "none", "verb": "get", "resource": "pods"}}
        body = {"metadata": {"namespace": "none"}, "spec": spec}
        assert (await p.ask("create", "localsubjectaccessreviews", "none", body=body)).code == 201


async def test_delete_in_an_absent_namespace_is_refused_by_a_validating_plugin() -> None:
    async with plane(options=options("NamespaceExists", "NamespaceAutoProvision")) as p:
        await p.run(SECOND)
        await p.ask("create", "configmaps", "new", body=MAP)
        p.storage.store.delete(SCHEME.key("namespaces", "", "new"), None, 0)
        reply = await p.ask("delete", "configmaps", "new", "m")
        assert (reply.code, reply.message) == (404, 'namespaces "new" not found')


@pytest.mark.parametrize(("user", "code"), [(AGENT, 200), (OTHER, 403)])
async def test_node_changes_only_pods_bound_to_it(user: UserInfo, code: int) -> None:
    patch = {"metadata": {}, "status": {"message": "here"}}
    kind = NAMES_ORCH.media_strategic_patch
    async with plane(options=options("NodeRestriction")) as p:
        await p.run(SECOND)
        assert (await p.ask("create", "pods", body=POD)).code == 201
        status = {"subresource": "status", "body": patch, "content_type": kind, "user": user}
        assert (await p.ask("patch", "pods", name="p", **status)).code == code
        reply = await p.ask("delete", "pods", name="p", body={"gracePeriodSeconds": 0}, user=user)
        assert reply.code == code
        text = 'pods "p" is forbidden: node "m" can only delete pods with spec.nodeName set to itself'
        if not reply.ok:
            assert reply.message == text


async def test_node_restriction_is_off_by_default() -> None:
    async with plane(options=options()) as p:
        await p.run(SECOND)
        await p.ask("create", "pods", body=POD)
        assert (await p.ask("delete", "pods", name="p", user=OTHER)).code == 200


async def test_events_beyond_their_limit_are_refused() -> None:
    event = {"apiVersion": "v1", "kind": "Event", "involvedObject": {"namespace": "default"}, "source": {}}
    limits = Configuration(event_limits=(EventLimit("User", qps=1, burst=2),))
    user = UserInfo("system:recorder", ("system:masters",))
    async with plane(options=options("EventRateLimit", admission=limits)) as p:
        await p.run(SECOND)
        codes = []
        for number in range(6):
            metadata = {"name": f"e{number}", "namespace": "default"}
            reply = await p.ask("create", "events", body={**event, "metadata": metadata}, user=user)
            codes.append(reply.code)
            if number == 4:
                await p.run(SECOND)
        assert codes == [201, 201, 429, 429, 429, 201]


PODS_NEED_QUOTA = LimitedResource(resource="pods", match_contains=("pods",))
CRITICAL = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}


async def test_limited_resource_needs_a_quota_that_covers_it() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "1", "count/pods": "1"}},
        "status": {"hard": {"pods": "1", "count/pods": "1"}, "used": {"pods": "0", "count/pods": "0"}},
    }
    async with plane(options=options(admission=Configuration(limited=(PODS_NEED_QUOTA,)))) as p:
        await p.run(SECOND)
        reply = await p.ask("create", "pods", body=POD)
        assert (reply.code, reply.message) == (
            403, 'pods "p" is forbidden: insufficient quota to consume: count/pods,pods',
        )  # fmt: skip
        assert (await p.ask("create", "configmaps", body=MAP)).code == 201
        await p.ask("create", "resourcequotas", body=quota)
        assert (
            await p.ask("update", "resourcequotas", name="q", body=quota, subresource="status")
        ).code == 200
        assert (await p.ask("create", "pods", body=POD)).code == 201
        again = {**POD, "metadata": {"name": "p2"}}
        assert "exceeded quota: q" in (await p.ask("create", "pods", body=again)).message


async def test_limited_scope_needs_a_quota_of_that_scope() -> None:
    limited = LimitedResource(resource="pods", match_scopes=(CRITICAL,))
    spec = {**POD["spec"], "priorityClassName": "system-node-critical"}  # type: ignore[dict-item]
    async with plane(options=options(admission=Configuration(limited=(limited,)))) as p:
        await p.run(SECOND)
        assert (await p.ask("create", "pods", body=POD)).code == 201
        reply = await p.ask("create", "pods", body={**POD, "metadata": {"name": "c"}, "spec": spec})
        assert (reply.code, reply.reason, reply.message) == (
            500, "", "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]",
        )  # fmt: skip
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"pods": "9"}, "scopeSelector": {"matchExpressions": [CRITICAL]}},
        }
        await p.ask("create", "resourcequotas", body=quota)
        assert (
            await p.ask("create", "pods", body={**POD, "metadata": {"name": "c"}, "spec": spec})
        ).code == 201
