"""The gateway of outside requests: what a replay does again, and what a journal that cannot be
written refuses.
"""

from __future__ import annotations

import json
from math import inf

import pytest

from sim.api.types import Reply, Request, UserInfo
from sim.app.cluster import Cluster
from sim.kernel import NotKeptError, Operation
from sim.wire.http import gateway as gateway_module
from sim.wire.http.gateway import ITEM_BYTES, Gateway, OutsideWatch

BACKLOG_MAX = 5
ADMIN = UserInfo("admin", ("system:masters", "system:authenticated"))


def of_config_maps(verb: str, name: str = "", **options: str) -> Request:
    writes = verb in ("create", "update", "patch")
    return Request(
        verb=verb,
        resource="configmaps",
        namespace="default",
        name="" if verb == "create" else name,
        options=options,
        body=json.dumps({"metadata": {"name": name}}).encode() if writes else None,
        user=ADMIN,
    )


async def answered(gateway: Gateway, request: Request) -> Reply:
    reply, _ = await gateway.call(request)
    return reply


async def opened(gateway: Gateway, **options: str) -> OutsideWatch:
    _, watch = await gateway.call(of_config_maps("watch", **options))
    assert watch is not None
    return watch


async def run_with_watch(
    options: dict[str, str], read: bool, replay: list[Operation] | None = None
) -> tuple[int, str, list[Operation]]:
    """Writes more than the backlog holds, which the client of a watch reads or does not; what was
    done then.
    """
    async with Cluster(naming="kubernetes", replay=replay) as cluster:
        cluster.kernel.set_rate(inf)
        gateway = Gateway(cluster.kernel, cluster.api_servers, BACKLOG_MAX)
        if replay is None:
            watch = await opened(gateway, **options)
            for number in range(3 * BACKLOG_MAX):
                assert (await answered(gateway, of_config_maps("create", f"m{number}"))).ok
                await cluster.run_for("1s")
                if read:
                    assert await watch.take()
        await cluster.run_until("3m")
        return cluster.kernel.steps, cluster.kernel.trace.sha256(), cluster.kernel.gate.journal


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("options", [{}, {"allowWatchBookmarks": "true"}, {"timeoutSeconds": "100"}])
async def test_replay_is_exact_after_a_watch_has_shown_more_than_its_backlog(
    options: dict[str, str], read: bool
) -> None:
    steps, trace, journal = await run_with_watch(options, read)
    names = [operation.name for operation in journal]
    assert names.count("watch-stop") == (not read)
    assert await run_with_watch(options, read, [*journal]) == (steps, trace, journal)


@pytest.mark.parametrize("read", [True, False])
async def test_watch_with_a_backlog_of_many_bytes_is_ended(
    read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "BACKLOG_BYTES", 3 * ITEM_BYTES)
    async with Cluster(naming="kubernetes") as cluster:
        cluster.kernel.set_rate(inf)
        gateway = Gateway(cluster.kernel, cluster.api_servers)
        watch = await opened(gateway)
        for number in range(4):
            assert (await answered(gateway, of_config_maps("create", f"m{number}"))).ok
            await cluster.run_for("1s")
            if read:
                assert await watch.take()
        ended = [each.name for each in cluster.kernel.gate.journal].count("watch-stop")
        assert ended == (not read)


async def run_with_reader(replay: list[Operation] | None = None) -> tuple[int, str, list[Operation]]:
    """Makes objects before and after a client reads metrics, in a cluster with nodes; what was done
    then.
    """
    async with Cluster(nodes=2, naming="kubernetes", replay=replay) as cluster:
        cluster.kernel.set_rate(inf)
        gateway = Gateway(cluster.kernel, cluster.api_servers)
        for number in range(3) if replay is None else ():
            assert (await answered(gateway, of_config_maps("create", f"m{number}"))).ok
            await cluster.run_for("20s")
            gateway.begin_counting()
        await cluster.run_until("2m")
        assert cluster.kernel.meters is not None
        return cluster.kernel.steps, cluster.kernel.trace.sha256(), cluster.kernel.gate.journal


async def test_replay_is_exact_after_a_client_has_read_metrics() -> None:
    steps, trace, journal = await run_with_reader()
    assert [operation.name for operation in journal] == ["request", "count", "request", "request"]
    assert await run_with_reader([*journal]) == (steps, trace, journal)


class FullDisk(list[Operation]):
    """A journal that keeps nothing any more."""

    def append(self, operation: Operation) -> None:
        raise NotKeptError


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete", "deletecollection"])
async def test_write_that_cannot_be_kept_is_refused_and_reads_are_served(verb: str) -> None:
    async with Cluster(naming="kubernetes") as cluster:
        cluster.kernel.set_rate(inf)
        gateway = Gateway(cluster.kernel, cluster.api_servers)
        assert (await answered(gateway, of_config_maps("create", "a"))).ok
        watch = await opened(gateway)
        cluster.kernel.gate.journal = FullDisk()
        before = cluster.storage.store.revision
        reply = await answered(gateway, of_config_maps(verb, "a" if verb != "create" else "b"))
        assert isinstance(reply.body, dict)
        assert (reply.code, reply.body["reason"]) == (500, "InternalError")
        assert "the journal of this server cannot be written" in reply.body["message"]
        assert cluster.storage.store.revision == before
        assert (await answered(gateway, of_config_maps("get", "a"))).ok
        assert (await answered(gateway, of_config_maps("list"))).ok
        assert (await answered(gateway, of_config_maps("create", "c", dryRun="All"))).code == 201
        await cluster.run_for("1s")
        assert await watch.take()
