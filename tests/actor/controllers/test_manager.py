"""The controller manager process: it leads or waits, exits without its lease, and keeps no memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from actors.controllers.manager import controller_manager_main
from actors.controllers.shared.shell import Env
from actors.controllers.table import Start
from sim.api.types import Endpoint
from sim.client import Channel, Informers
from sim.ident import NAMES
from sim.kernel import Rule
from sim.options.controllers.manager import parse_controller_manager
from sim.units import SECOND
from tests.actor.apiserver.cluster import SCHEME, Plane, plane

N = NAMES["orch"]
HOSTS = ("cm-0", "cm-1")


class Pair:
    """Two controller managers with controllers that only record their start."""

    def __init__(
        self,
        control: Plane,
        given: dict[str, object],
        loops: dict[str, Start] | None = None,
        together: bool = False,
    ) -> None:
        self.plane = control
        # (time, process, controller, incarnation)
        self.started: list[tuple[int, str, str, int]] = []
        servers: dict[str, Endpoint] = {control.server.name: control.server}
        main = controller_manager_main(
            SCHEME,
            lambda ctx: [Channel(ctx, ctx.name, servers, control.server.name)],
            parse_controller_manager(given),
            loops=loops or {"podgc": self._note("podgc"), "namespace": self._note("namespace")},
            together=together,
        )
        self.actors = [control.supervisor.add(host, main, restart_us=SECOND) for host in HOSTS]

    def _note(self, loop: str):  # type: ignore[no-untyped-def]
        async def start(env: Env) -> None:
            self.started.append((env.ctx.kernel.now_us, env.ctx.name, loop, env.ctx.incarnation))

        return start

    @property
    def leader(self) -> str:
        return self.started[-1][1]

    async def holder(self) -> str:
        reply = await self.plane.ask("get", "leases", N.system_namespace, N.lease_controller_manager)
        return str(reply.obj["spec"]["holderIdentity"])


@asynccontextmanager
async def pair(
    loops: dict[str, Start] | None = None, seed: int = 1, together: bool = False, **given: object
) -> AsyncIterator[Pair]:
    async with plane(seed=seed) as control:
        values = {name.replace("_", "-"): value for name, value in given.items()}
        found = Pair(control, values, loops, together)
        await control.run(3 * SECOND)
        yield found


async def test_only_the_leader_starts_its_loops() -> None:
    async with pair() as found:
        await found.plane.run(60 * SECOND)
        assert sorted(loop for _, _, loop, _ in found.started) == ["namespace", "podgc"]
        assert len({host for _, host, _, _ in found.started}) == 1
        assert (await found.holder()).startswith(f"{found.leader}_")


async def test_killed_leader_is_replaced_after_its_lease_expires() -> None:
    async with pair() as found:
        first, killed_us = found.leader, found.plane.kernel.now_us
        found.plane.supervisor[first].crash()
        await found.plane.run(30 * SECOND)
        assert found.leader != first
        assert 13 * SECOND <= found.started[-1][0] - killed_us <= 23.8 * SECOND


async def test_disconnected_leader_exits_before_another_leads_and_restarts_empty() -> None:
    async with pair() as found:
        first = found.leader
        network = found.plane.kernel.network
        network.impose(Rule("cut", frozenset([first]), None, cut=True))
        actor = found.plane.supervisor[first]
        while actor.incarnations == 1:
            await found.plane.run(SECOND // 10)
        assert found.leader == first  # no other process leads yet
        await found.plane.run(15 * SECOND)
        assert found.leader != first
        network.lift("cut")
        found.plane.supervisor[found.leader].crash()
        await found.plane.run(40 * SECOND)
        assert found.started[-1][1:] == (first, found.started[-1][2], 2)


async def test_disabled_controllers_do_not_start_and_others_keep_their_interval() -> None:
    async with pair(controllers="*,-podgc", leader_elect=False) as found:
        assert sorted(host for _, host, loop, _ in found.started if loop == "namespace") == list(HOSTS)
        assert not [loop for _, _, loop, _ in found.started if loop == "podgc"]
    async with pair(controller_start_interval="10s", leader_elect=False) as found:
        await found.plane.run(45 * SECOND)
        for host in HOSTS:
            first, second = [at for at, name, _, _ in found.started if name == host]
            assert 10 * SECOND <= first <= 21 * SECOND
            assert 10 * SECOND <= second - first <= 20 * SECOND


async def test_no_controller_acts_before_all_have_started() -> None:
    acted: list[int] = []

    async def eager(env: Env) -> None:
        env.informers["pods"].on(add=lambda pod: None)
        await env.informers.start_and_sync()
        acted.append(env.ctx.kernel.now_us)

    async with pair(
        {"podgc": eager, "ttl": eager}, controller_start_interval="10s", leader_elect=False
    ) as found:
        await found.plane.run(45 * SECOND)
        assert len(acted) == 4
        for at_us in acted:
            assert at_us >= 20 * SECOND
        assert len({*acted}) == 2  # all controllers of one process at one time


async def test_informers_start_when_all_controllers_have_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    async def begin(env: Env) -> None:
        order.append("controller")
        await env.informers.start_and_sync()

    monkeypatch.setattr(Informers, "start", lambda _: order.append("informers"))
    async with pair({"podgc": begin, "ttl": begin}, together=True):
        assert order == ["controller"] * 2 + ["informers"] * 2


@pytest.mark.parametrize(
    ("lock", "kinds"), [("leases", {"Lease"}), ("endpointsleases", {"Endpoints", "Lease"})]
)
async def test_leader_election_event_is_recorded_on_each_lock_object(lock: str, kinds: set[str]) -> None:
    # Under other seeds each candidate creates one of the two lock objects, and neither keeps both.
    async with pair(seed=3, leader_elect_resource_lock=lock) as found:
        await found.plane.run(SECOND)
        reply = await found.plane.ask("list", "events", N.system_namespace)
        events = [item.obj for item in reply.items or ()]
        assert {event["involvedObject"]["kind"] for event in events} == kinds
        for event in events:
            assert event["involvedObject"]["name"] == N.lease_controller_manager
            assert (event["type"], event["reason"]) == ("Normal", "LeaderElection")
            assert event["message"] == f"{await found.holder()} became leader"
            assert event["source"]["component"] == N.component("controller-manager")


# --- service accounts of controllers --------------------------------------------------------------


async def _accounts(found: Pair) -> list[str]:
    reply = await found.plane.ask("list", "serviceaccounts", N.system_namespace)
    return [item.obj["metadata"]["name"] for item in reply.items or ()]


async def _use_two_clients(env: Env) -> None:
    env.client("job-controller")
    env.client("job-controller")
    env.root_client("tokens-controller")


async def test_account_is_created_for_each_controller_with_own_credentials() -> None:
    async with pair({"job": _use_two_clients}, use_service_account_credentials="true") as found:
        await found.plane.run(20 * SECOND)
        assert await _accounts(found) == ["job-controller"]


async def test_no_account_is_created_for_controllers_without_own_credentials() -> None:
    async with pair({"job": _use_two_clients}, use_service_account_credentials="false") as found:
        await found.plane.run(20 * SECOND)
        assert await _accounts(found) == []


async def test_account_is_created_when_the_server_runs_again() -> None:
    async with pair(
        {"job": _use_two_clients}, use_service_account_credentials="true", leader_elect="false"
    ) as found:
        supervisor = found.plane.supervisor
        assert (await found.plane.ask("delete", "serviceaccounts", N.system_namespace, "job-controller")).ok
        for name in ("apiserver-0", *HOSTS):
            supervisor[name].crash()
        for host in HOSTS:
            supervisor[host].start()
        await found.plane.run(5 * SECOND)
        supervisor["apiserver-0"].start()
        await found.plane.run(5 * SECOND)
        assert await _accounts(found) == ["job-controller"]


async def test_migrated_controllers_run_under_a_second_lock_of_the_same_process() -> None:
    config = {
        "apiVersion": "controllermanager.config.orch.io/v1",
        "kind": "LeaderMigrationConfiguration",
        "leaderName": "moving",
        "controllerLeaders": [{"name": "podgc", "component": "*"}],
    }
    async with pair(enable_leader_migration=True, leader_migration_config=config) as found:
        await found.plane.run(20 * SECOND)
        holders = []
        for name in (N.lease_controller_manager, "moving"):
            lease = (await found.plane.ask("get", "leases", N.system_namespace, name)).obj
            holders.append(lease["spec"]["holderIdentity"])
        assert holders[0] == holders[1]
        assert sorted(loop for _, _, loop, _ in found.started) == ["namespace", "podgc"]
        first = found.leader
        body = {"spec": {"holderIdentity": "another", "renewTime": "2100-01-01T00:00:00.000000Z"}}
        kind = N.media_merge_patch
        reply = await found.plane.ask(
            "patch", "leases", N.system_namespace, "moving", body=body, content_type=kind
        )
        assert reply.ok, reply.message
        # Without the second lock the process ends, and gives up the first.
        await found.plane.run(40 * SECOND)
        assert {process for _, process, loop, _ in found.started[2:]} - {first}
