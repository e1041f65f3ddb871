"""Resource quotas: charged by the API server, recounted by their controller."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sim.api.types import Obj, Reply, Request
from sim.units import MS, SECOND
from tests.actor.apiserver.cluster import ADMIN
from tests.actor.controllers.workload import POD_SPEC, World, workload, world

LOOPS = ("resourcequota", "replicaset")


def quota(name: str = "q", **hard: str) -> Obj:
    return {"metadata": {"name": name}, "spec": {"hard": {k.replace("_", "."): v for k, v in hard.items()}}}


def pod(name: str, **requests: str) -> Obj:
    container = {**POD_SPEC["containers"][0], "resources": {"requests": requests}}
    return {"metadata": {"name": name}, "spec": {**POD_SPEC, "containers": [container]}}


async def status(w: World, name: str = "q") -> Any:
    return (await w.get("resourcequotas", name)).get("status")


async def test_new_quota_is_counted_at_once_and_charged_by_each_create() -> None:
    async with world(LOOPS) as w:
        await w.create("pods", pod("a", cpu="250m", memory="1Gi"))
        await w.create("resourcequotas", quota(pods="3", requests_cpu="1", requests_memory="4Gi"))
        await w.settle(SECOND)
        hard = {"pods": "3", "requests.cpu": "1", "requests.memory": "4Gi"}
        assert await status(w) == {
            "hard": hard,
            "used": {"pods": "1", "requests.cpu": "250m", "requests.memory": "1Gi"},
        }
        await w.create("pods", pod("b", cpu="0.75", memory="512Mi"))
        # The reply to the create comes after the charge.
        used = {"pods": "2", "requests.cpu": "1", "requests.memory": "1536Mi"}
        assert await status(w) == {"hard": hard, "used": used}


async def test_create_beyond_a_quota_is_rejected_and_changes_nothing() -> None:
    async with world(LOOPS) as w:
        await w.create("resourcequotas", quota(pods="2", requests_cpu="1"))
        await w.settle(SECOND)
        await w.create("pods", pod("a", cpu="600m"))
        reply = await w.plane.ask("create", "pods", "default", body=pod("b", cpu="500m"))
        assert (reply.code, reply.message) == (
            403,
            'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=500m, '
            "used: requests.cpu=600m, limited: requests.cpu=1",
        )
        reply = await w.plane.ask("create", "pods", "default", body=pod("b"))
        assert reply.message == 'pods "b" is forbidden: failed quota: q: must specify requests.cpu for: c'
        assert (await status(w))["used"] == {"pods": "1", "requests.cpu": "600m"}


async def test_pod_older_than_its_quota_can_be_changed_despite_its_requests() -> None:
    async with world(LOOPS) as w:
        await w.create("pods", pod("a"))
        await w.create("resourcequotas", quota(pods="0", requests_cpu="1"))
        await w.settle(SECOND)
        await w.patch(
            "pods", "a", {"metadata": {"labels": {"new": "label"}, "finalizers": ["example.com/x"]}}
        )
        held = await w.get("pods", "a")
        assert held["metadata"]["labels"]["new"] == "label"
        assert (await status(w))["used"] == {"pods": "1", "requests.cpu": "0"}


async def test_deleted_or_finished_pod_frees_its_share() -> None:
    async with world(LOOPS) as w:
        await w.create("resourcequotas", quota(pods="2"))
        await w.settle(SECOND)
        await w.create("pods", pod("a"))
        await w.create("pods", pod("b"))
        await w.delete("pods", "a")
        await w.settle(SECOND)
        assert (await status(w))["used"] == {"pods": "1"}
        await w.patch("pods", "b", {"status": {"phase": "Succeeded"}}, "status")
        await w.settle(SECOND)
        assert (await status(w))["used"] == {"pods": "0"}


async def test_quota_of_ten_pods_causes_fifteen_creates_and_then_one_per_backoff() -> None:
    async with world(LOOPS) as w:
        await w.create("resourcequotas", quota(pods="10"))
        await w.settle(SECOND)
        await w.create("replicasets", workload("ReplicaSet", "web", replicas=100))
        await w.settle(SECOND)
        calls = w.quota.attempts
        assert len(await w.stored("pods")) == 10 and (await status(w))["used"] == {"pods": "10"}
        assert max(calls[7:15]) - min(calls[7:15]) < 2 * MS  # the batch of eight; five are rejected
        later = calls[14:]
        assert 3 < len(later) < 12
        assert all(b - a > MS // 2 for a, b in pairwise(later))  # one at a time
        await w.settle(30 * SECOND)
        assert len(await w.stored("pods")) == 10
        failures = [text for reason, text in await w.events("web") if reason == "FailedCreate"]
        assert "exceeded quota: q, requested: pods=1, used: pods=10, limited: pods=10" in failures[0]


async def test_objects_are_counted_by_kind_and_group() -> None:
    async with world(LOOPS) as w:
        hard = {"configmaps": "5", "count/replicasets.apps": "1", "count/configmaps": "9"}
        await w.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        await w.create("configmaps", {"metadata": {"name": "m"}})
        await w.settle(SECOND)
        assert (await status(w))["used"] == {
            "configmaps": "1",
            "count/configmaps": "1",
            "count/replicasets.apps": "0",
        }
        await w.create("replicasets", workload("ReplicaSet", "a", replicas=0))
        reply = await w.plane.ask(
            "create", "replicasets", "default", body=workload("ReplicaSet", "b", replicas=0)
        )
        assert reply.code == 403 and "exceeded quota: q" in reply.message


async def test_scope_limits_a_quota_to_some_pods() -> None:
    async with world(LOOPS) as w:
        spec = {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}
        await w.create("resourcequotas", {"metadata": {"name": "q"}, "spec": spec})
        await w.settle(SECOND)
        await w.create("pods", pod("a", cpu="1"))
        await w.create("pods", pod("b"))
        assert (await status(w))["used"] == {"pods": "1"}
        reply = await w.plane.ask("create", "pods", "default", body=pod("c"))
        assert reply.code == 403


async def test_ports_freed_by_a_service_are_counted_at_once_only_if_its_type_changes() -> None:
    async with world(LOOPS) as w:
        await w.create("resourcequotas", quota(**{"services.nodeports": "9"}))
        ports = [{"name": str(port), "port": port} for port in (80, 81, 82)]
        await w.create("services", {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}})
        await w.settle(SECOND)
        assert (await status(w))["used"] == {"services.nodeports": "3"}
        await w.patch("services", "s", {"spec": {"ports": ports[:1]}})
        await w.settle(200 * SECOND)
        assert (await status(w))["used"] == {"services.nodeports": "3"}
        await w.settle(100 * SECOND)
        assert (await status(w))["used"] == {"services.nodeports": "1"}
        await w.patch(
            "services", "s", {"spec": {"type": "ClusterIP", "ports": [{**ports[0], "nodePort": None}]}}
        )
        await w.settle(SECOND)
        assert (await status(w))["used"] == {"services.nodeports": "0"}


async def test_all_quotas_are_recounted_every_five_minutes() -> None:
    async with world(LOOPS) as w:
        await w.create("resourcequotas", quota(pods="10"))
        await w.settle(SECOND)
        await w.patch("resourcequotas", "q", {"status": {"used": {"pods": "7"}}}, "status")
        await w.settle(200 * SECOND)
        assert (await status(w))["used"] == {"pods": "7"}
        await w.settle(100 * SECOND)
        assert (await status(w))["used"] == {"pods": "0"}


async def test_custom_resources_are_counted_once_discovery_has_found_them() -> None:
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }

    def widget(name: str) -> Obj:
        return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}

    async with world(LOOPS) as w:

        async def send(verb: str, name: str, body: Obj | None = None) -> Reply:
            asked = Request(
                verb=verb,
                resource="widgets",
                group="example.com",
                namespace="default",
                name=name,
                body=body,
                user=ADMIN,
            )
            replies = w.plane.send(asked)
            await w.settle(SECOND)
            return replies[0]

        await w.create("customresourcedefinitions", definition)
        await w.settle(SECOND)
        assert (await send("create", "", widget("a"))).ok
        await w.create(
            "resourcequotas",
            {"metadata": {"name": "q"}, "spec": {"hard": {"count/widgets.example.com": "1"}}},
        )
        await w.settle(31 * SECOND)
        assert await status(w) == {"hard": {"count/widgets.example.com": "1"}}
        reply = await send("create", "", widget("b"))
        assert reply.message == (
            'widgets.example.com "b" is forbidden: status unknown for quota: q, '
            "resources: count/widgets.example.com"
        )
        assert (await send("delete", "a")).ok
        assert (await status(w))["used"] == {"count/widgets.example.com": "0"}
        assert (await send("create", "", widget("b"))).ok
        assert (await status(w))["used"] == {"count/widgets.example.com": "1"}
        reply = await send("create", "", widget("c"))
        assert reply.message.startswith('widgets.example.com "c" is forbidden: exceeded quota: q')
