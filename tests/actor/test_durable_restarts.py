"""What an API server with a data directory knows again after a restart besides its objects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

from sim.api.types import Reply, Request
from sim.app.cluster import Cluster
from sim.app.daemons.durable import DurableStore
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import Wall
from sim.wire.http.gateway import Gateway
from tests.actor.test_gateway import ADMIN, answered

NONE = ComponentPlan(replicas=0)
EPOCH_US = 1_700_000_000_000_000
MINUTE_US = 60_000_000
TTL = {"event-ttl": "10m"}


@asynccontextmanager
async def server(
    folder: Path, after_us: int = 0, flags: Mapping[str, object] | None = None
) -> AsyncIterator[tuple[Cluster, Gateway, DurableStore]]:
    """An API server alone that starts at a time of the wall clock, and is closed at the end."""
    epoch_us = Wall(EPOCH_US + after_us)
    given = dict(flags or {})
    api_server = ComponentPlan(flags=given, places={name: f"--{name}" for name in given})
    plan = ClusterPlan(
        naming="kubernetes", api_server=api_server, controller_manager=NONE, scheduler=NONE, served=True
    )
    durable = DurableStore(folder, "kubernetes", epoch_us)
    cluster = Cluster(plan, epoch_us=epoch_us)
    durable.open(cluster.storage.store)
    async with cluster:
        cluster.kernel.set_rate(inf)
        await cluster.run_for("5s")
        yield cluster, Gateway(cluster.kernel, cluster.api_servers), durable
    durable.close()


def create(resource: str, name: str, **more: Any) -> Request:
    body = {"metadata": {"name": name}, **more}
    return Request(
        verb="create", resource=resource, namespace="default", body=json.dumps(body).encode(), user=ADMIN
    )


async def create_event(gateway: Gateway, name: str) -> None:
    involved = {"kind": "Pod", "namespace": "default", "name": "p"}
    reply = await answered(gateway, create("events", name, involvedObject=involved, reason="Tested"))
    assert reply.code == 201, reply.body


async def events(gateway: Gateway) -> list[str]:
    listing = Request(verb="list", resource="events", namespace="default", user=ADMIN)
    items = (await answered(gateway, listing)).items
    return [item.obj["metadata"]["name"] for item in items or ()]


async def test_events_of_an_earlier_process_expire_at_their_time(tmp_path: Path) -> None:
    async with server(tmp_path, 0, TTL) as (cluster, gateway, _):
        await create_event(gateway, "early")
        await cluster.run_for("6m")
        await create_event(gateway, "late")
    async with server(tmp_path, 7 * MINUTE_US, TTL) as (cluster, gateway, _):
        assert await events(gateway) == ["early", "late"]
        await cluster.run_for("4m")
        assert await events(gateway) == ["late"]
        await cluster.run_for("7m")
        assert await events(gateway) == []


async def test_events_before_the_history_live_no_shorter_and_not_for_ever(tmp_path: Path) -> None:
    async with server(tmp_path, 0, TTL) as (cluster, gateway, durable):
        await create_event(gateway, "old")
        await cluster.run_for("5m")
        store = cluster.storage.store
        store.compact(store.revision)
        await create_event(gateway, "new")
        durable.flush()
        durable._replace_file()
    async with server(tmp_path, 6 * MINUTE_US, TTL) as (cluster, gateway, _):
        await cluster.run_for("3m")
        assert await events(gateway) == ["new", "old"]
        await cluster.run_for("8m")
        assert await events(gateway) == []


async def services(gateway: Gateway, *names: str) -> list[Reply]:
    port = {"port": 80}
    return [
        await answered(gateway, create("services", name, spec={"type": "NodePort", "ports": [port]}))
        for name in names
    ]


def places(replies: list[Reply]) -> set[tuple[str, int]]:
    """Addresses and node ports."""
    specs = [reply.obj["spec"] for reply in replies]
    return {(spec["clusterIP"], spec["ports"][0]["nodePort"]) for spec in specs}


async def test_addresses_and_node_ports_stay_allocated(tmp_path: Path) -> None:
    ports = {"service-node-port-range": "30000-30005", "service-cluster-ip-range": "10.0.0.0/29"}
    async with server(tmp_path, 0, ports) as (_, gateway, _):
        first = places(await services(gateway, "a", "b"))
    async with server(tmp_path, MINUTE_US, ports) as (_, gateway, _):
        (address, port), *_ = sorted(first)
        for spec in (
            {"clusterIP": address, "ports": [{"port": 80}]},
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]},
        ):
            taken = await answered(gateway, create("services", "taken", spec=spec))
            assert (taken.code, taken.reason) == (422, "Invalid")
            assert "already allocated" in str(taken.body)
        made = [reply for reply in await services(gateway, "c", "d", "e", "f") if reply.ok]
        later = places(made)
    # A network of eight addresses has six for Services, one of which the API servers have.
    assert (len(made), len({each[0] for each in first | later})) == (3, 5)
    assert len({each[1] for each in first | later}) == 5
