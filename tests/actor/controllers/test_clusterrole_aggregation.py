"""The controller that gathers the rules of ClusterRoles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sim.api.types import Obj
from tests.actor.apiserver.cluster import SCHEME
from tests.actor.controllers.workload import World, world
from tests.unit.sim.api.auth.rbac.builders import role, rule

PODS, NODES, SECRETS = rule("get", "pods"), rule("get", "nodes"), rule("get", "secrets")
GATHERS: Obj = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
SELECTED: Obj = {"labels": {"a": "b"}}


@asynccontextmanager
async def controlled() -> AsyncIterator[World]:
    async with world(("clusterrole-aggregation",)) as found:
        yield found


async def write(w: World, verb: str, name: str, body: Any = None) -> None:
    kind = SCHEME.names.media_merge_patch if verb == "patch" else "application/json"
    named = "" if verb == "create" else name
    reply = await w.plane.ask(verb, "clusterroles", "", named, body=body, content_type=kind)
    assert reply.ok, reply.message
    await w.settle()


def selected(name: str, *rules: Obj) -> Obj:
    return {**role(name, *rules), "metadata": {"name": name, **SELECTED}}


async def rules_of(w: World, name: str) -> Any:
    reply = await w.plane.ask("get", "clusterroles", "", name)
    return reply.obj["rules"]


async def test_rules_follow_each_change_of_the_selected_roles() -> None:
    async with controlled() as w:
        await write(w, "create", "all", {**role("all", SECRETS), **GATHERS})
        assert await rules_of(w, "all") == [SECRETS]  # nothing to gather: hand-set rules stay
        await write(w, "create", "y", selected("y", NODES))
        await write(w, "create", "x", selected("x", PODS, NODES))
        assert await rules_of(w, "all") == [PODS, NODES]
        await write(w, "patch", "all", {"rules": [SECRETS]})
        assert await rules_of(w, "all") == [PODS, NODES]
        await write(w, "patch", "x", {"metadata": {"labels": None}})
        assert await rules_of(w, "all") == [NODES]
        await write(w, "delete", "y")
        assert await rules_of(w, "all") is None


async def test_rules_are_applied_under_the_name_of_the_controller() -> None:
    async with controlled() as w:
        await write(w, "create", "x", selected("x", PODS))
        await write(w, "create", "all", {**role("all"), **GATHERS})
        item = (await w.plane.ask("get", "clusterroles", "", "all")).item
        assert item is not None
        owners = [(entry.manager, entry.operation) for entry in item.managed]
        assert ("clusterrole-aggregation-controller", "Apply") in owners


async def test_server_without_apply_gets_an_update() -> None:
    async with controlled() as w:
        await write(w, "create", "x", selected("x", PODS))
        w.quota.refuse_once("patch", "clusterroles", 415, "UnsupportedMediaType", "no apply")
        updates = w.quota.watch("update", "clusterroles")
        await write(w, "create", "all", {**role("all"), **GATHERS})
        assert await rules_of(w, "all") == [PODS]
        assert len(updates) == 1


async def test_refused_apply_is_tried_again() -> None:
    async with controlled() as w:
        await write(w, "create", "x", selected("x", PODS))
        w.quota.refuse(2, "patch", "clusterroles", 403, "Forbidden", "no")
        await write(w, "create", "all", {**role("all"), **GATHERS})
        assert await rules_of(w, "all") == [PODS]
