"""Custom resources that a program of the library converts, on a whole cluster in virtual time."""

from __future__ import annotations

from typing import Any

from sim.api.types import Obj, Reply, Request, WatchEvent
from sim.app.cluster import Cluster
from sim.faults.surroundings.webhook import DENY, TARGET_PREFIX
from sim.ident import NAMES
from sim.units import MS, SECOND
from tests.actor.apiserver.cluster import ADMIN

N = NAMES["orch"]
GROUP = "example.com"
URL = "https://convert.example.com/c"


def definition(field: str, name: str) -> Obj:
    spec: Obj = {"type": "object", "properties": {field: {"type": "string"}}}
    schema: Obj = {"type": "object", "properties": {"spec": spec}}
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}


def widgets(**client: Any) -> Obj:
    webhook = {"clientConfig": client or {"url": URL}, "conversionReviewVersions": ["v1"]}
    return {
        "apiVersion": N.api_version("apiextensions", "v1"),
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [definition("size", "v1"), definition("length", "v2")],
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }


def renamed(obj: Obj, wanted: str) -> Obj:
    """v1 has a size, and v2 a length; an object named "odd" cannot be converted."""
    name = obj["metadata"]["name"]
    if name == "odd":
        raise ValueError("odd is not convertible")
    (value,) = obj["spec"].values()
    field = "size" if wanted.endswith("/v1") else "length"
    labels = {"converted": wanted.rpartition("/")[2]}
    metadata = {**obj["metadata"], "labels": labels, "finalizers": ["ignored/x"]}
    return {**obj, "apiVersion": wanted, "metadata": metadata, "spec": {field: value}}


def widget(name: str, version: str, **spec: str) -> Obj:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }


class World:
    """A cluster with a definition, and requests to it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def ask(self, verb: str, version: str, name: str = "", body: Obj | None = None, **kw: Any) -> Reply:
        """The answer to a request for widgets in a version."""
        made = Request(
            verb=verb, resource="widgets", group=GROUP, version=version, namespace="default", name=name,
            body=body, user=ADMIN, manager="test", **kw,
        )  # fmt: skip
        return await self.send(made)

    async def send(self, made: Request) -> Reply:
        """The answer to a request, within a minute."""
        replies: list[Reply] = []
        self.cluster.api_servers["apiserver-0"].handle(made, replies.append)
        end_us = self.cluster.kernel.now_us + 60 * SECOND
        while not replies and self.cluster.kernel.now_us < end_us:
            await self.cluster.run_for(MS)
        (reply,) = replies
        return reply


async def started(cluster: Cluster, **client: Any) -> World:
    """A cluster in which the definition is served."""
    found = World(cluster)
    await cluster.run_for("2s")
    made = Request(
        verb="create", resource="customresourcedefinitions", group=N.group("apiextensions"), version="v1",
        body=widgets(**client), user=ADMIN, manager="test",
    )  # fmt: skip
    reply = await found.send(made)
    assert reply.ok, reply.message
    await cluster.run_for("8s")
    return found


async def test_objects_are_converted_where_they_are_read_and_written() -> None:
    async with Cluster() as cluster:
        cluster.add_conversion(URL, renamed)
        found = await started(cluster)
        made = await found.ask("create", "v2", "", widget("a", "v2", length="5"))
        assert made.ok, made.message
        assert made.obj["spec"] == {"length": "5"}
        assert "finalizers" not in made.obj["metadata"]
        read = await found.ask("get", "v1", "a")
        assert (read.obj["apiVersion"], read.obj["spec"]) == (f"{GROUP}/v1", {"size": "5"})
        assert read.obj["metadata"]["labels"] == {"converted": "v1"}
        changed = {**read.obj, "spec": {"size": "6"}}
        assert (await found.ask("update", "v1", "a", changed)).ok
        listed = await found.ask("list", "v2", options={"resourceVersion": "0"})
        assert listed.items is not None
        assert [item.obj["spec"] for item in listed.items] == [{"length": "6"}]
        patched = await found.ask(
            "patch", "v2", "a", {"spec": {"length": "7"}}, content_type="application/merge-patch+json"
        )
        assert patched.obj["spec"] == {"length": "7"}
        assert (await found.ask("delete", "v2", "a")).ok


async def test_watch_gets_the_requested_version() -> None:
    async with Cluster() as cluster:
        cluster.add_conversion(URL, renamed)
        found = await started(cluster)
        opened = await found.ask("watch", "v2")
        assert opened.watch is not None
        for name in ("a", "b"):
            body = widget(name, "v1", size="1")
            assert (await found.ask("create", "v1", "", body)).ok
        events: list[WatchEvent] = []
        opened.watch.attach(lambda: events.extend(opened.watch.take() if opened.watch else ()))
        await cluster.run_for("1s")
        shown = [
            (event.type, event.item.obj["metadata"]["name"], event.item.obj["spec"])
            for event in events
            if event.item
        ]
        assert shown == [("ADDED", "a", {"length": "1"}), ("ADDED", "b", {"length": "1"})]
        body = widget("odd", "v1", size="1")
        assert (await found.ask("create", "v1", "", body)).ok
        await cluster.run_for("1s")
        assert events[-1].type == "ERROR"


async def test_failures_of_the_webhook_are_worded_as_upstream_does() -> None:
    async with Cluster() as cluster:
        cluster.add_conversion(URL, renamed)
        found = await started(cluster)
        head = f"conversion webhook for {GROUP}/v2, Kind=Widget failed: "
        refused = await found.ask("create", "v2", "", widget("odd", "v2", length="1"))
        assert (refused.code, refused.message) == (500, f"{head}odd is not convertible")
        target = f"{TARGET_PREFIX}conversion_webhook_for_widgets.{GROUP}"
        cluster.faults.impose("step", target, DENY)
        refused = await found.ask("create", "v2", "", widget("a", "v2", length="1"))
        assert refused.message == f"{head}denied by a fault of the scenario"
    service = {"service": {"namespace": "default", "name": "none", "path": "/c"}}
    async with Cluster() as cluster:
        found = await started(cluster, **service)
        refused = await found.ask("create", "v2", "", widget("a", "v2", length="1"))
        where = 'Post "https://none.default.svc:443/c?timeout=30s"'
        assert refused.message == f'{head}{where}: service "none" not found'
