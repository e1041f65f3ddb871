"""Which requests are served at the same time when requests take time, on a whole API server: known
case 56 in breadth.

Each request takes ten seconds here. The cluster has no other clients.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim.api.types import Reply, Request, UserInfo
from sim.app.cluster import Cluster
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND

TAKES_S = 10
SEATS = {
    "system": 74,
    "node-high": 98,
    "leader-election": 25,
    "workload-high": 98,
    "workload-low": 245,
    "global-default": 49,
    "catch-all": 13,
}


def alone(**flags: str) -> ClusterPlan:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    none = ComponentPlan(0)
    return ClusterPlan(api_server=ComponentPlan(flags=named), controller_manager=none, scheduler=none)


def asked(cluster: Cluster, level: str, team: str = "team") -> Request:
    """A request of that level; team: the namespace of the account of workload-low."""
    names = cluster.names
    member = (names.group_authenticated,)

    def read(user: UserInfo, verb: str = "get", resource: str = "pods", namespace: str = "a") -> Request:
        return Request(
            verb=verb, resource=resource, version="v1", namespace=namespace, name="none", user=user
        )

    def account(namespace: str) -> UserInfo:
        return UserInfo(
            names.service_account_user(namespace, "x"), (*names.service_account_groups(namespace), *member)
        )

    node = UserInfo("system:node:n", (names.group_nodes, *member))
    manager = UserInfo(names.user_controller_manager, member)
    requests: dict[str, Callable[[], Request]] = {
        "system": lambda: read(node),
        "node-high": lambda: read(node, resource="nodes", namespace=""),
        "leader-election": lambda: Request(
            verb="get",
            resource="leases",
            group=cluster.scheme.resource("leases").group,
            version="v1",
            namespace=names.system_namespace,
            name="none",
            user=manager,
        ),
        "workload-high": lambda: read(manager),
        "workload-low": lambda: read(account(team)),
        "global-default": lambda: read(UserInfo("alice", member)),
        "catch-all": lambda: read(UserInfo("nobody")),
    }
    return requests[level]()


class Answers:
    """When requests were answered, in seconds from the first, and how."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.server = cluster.api_servers["apiserver-0"]
        self.began_us = cluster.kernel.now_us
        self.told: list[tuple[float, Reply]] = []

    def send(self, request: Request, count: int) -> None:
        for _ in range(count):
            self.cluster.kernel.call_later(0, lambda _: self.server.handle(request, self._told))

    def _told(self, reply: Reply) -> None:
        self.told.append(((self.cluster.kernel.now_us - self.began_us) / SECOND, reply))

    def served(self, until_s: float) -> int:
        return sum(at <= until_s and reply.code != 429 for at, reply in self.told)

    def refused(self) -> list[float]:
        return [at for at, reply in self.told if reply.code == 429]


async def slow(cluster: Cluster) -> Answers:
    await cluster.run_for("5s")
    cluster.api_servers["apiserver-0"].overload(TAKES_S * SECOND, None)
    return Answers(cluster)


@pytest.mark.parametrize("level", SEATS)
async def test_56_level_serves_as_many_requests_as_seats_and_rejects_after_15_s(
    level: str,
) -> None:
    """One flow has room for 50 in each of its 4 or 6 queues."""
    seats, late = SEATS[level], min(SEATS[level], 50)
    async with Cluster(alone(), seed=1) as cluster:
        answers = await slow(cluster)
        answers.send(asked(cluster, level), 2 * seats + late)
        await cluster.run_for("9s")
        # This level has no queues: a request without a free seat is rejected at once.
        assert len(answers.refused()) == (seats + late if level == "catch-all" else 0)
        await cluster.run_for("31s")
        assert answers.served(TAKES_S + 0.1) == seats
        if level != "catch-all":
            assert answers.served(2 * TAKES_S + 0.2) == 2 * seats
            assert len(answers.refused()) == late
            assert all(15 <= at <= 15.1 for at in answers.refused())
        waits = [reply.headers["Retry-After"] for _, reply in answers.told if reply.code == 429]
        assert waits and set(waits) == {"1"}


async def test_56_flow_with_full_queues_is_rejected_at_once_and_another_waits() -> None:
    """6 of 128 queues, 50 each: 245 are served, 300 wait, the rest goes."""
    async with Cluster(alone(), seed=1) as cluster:
        answers = await slow(cluster)
        answers.send(asked(cluster, "workload-low"), 245 + 300 + 40)
        await cluster.run_for("1s")
        assert len(answers.refused()) == 40
        answers.send(asked(cluster, "workload-low", "other"), 20)
        await cluster.run_for("1s")
        assert len(answers.refused()) == 40


@pytest.mark.parametrize(
    ("reads", "writes", "low", "default"), [(400, 200, 245, 49), (800, 400, 490, 98), (40, 9, 20, 4), (1, 0, 1, 1)]
)  # fmt: skip
async def test_56_seats_are_shares_of_the_limits_on_requests_in_flight(
    reads: int, writes: int, low: int, default: int
) -> None:
    """ceil(seats x shares / 245), each."""
    flags = {"max_requests_inflight": str(reads), "max_mutating_requests_inflight": str(writes)}
    async with Cluster(alone(**flags), seed=1) as cluster:
        answers = await slow(cluster)
        answers.send(asked(cluster, "workload-low"), low + 5)
        answers.send(asked(cluster, "global-default"), default + 5)
        await cluster.run_for("12s")
        assert answers.served(TAKES_S + 0.1) == low + default


async def test_56_the_levels_do_not_take_seats_from_each_other_and_masters_need_none() -> None:
    async with Cluster(alone(), seed=1) as cluster:
        answers = await slow(cluster)
        for level in SEATS:
            answers.send(asked(cluster, level), SEATS[level])
        admin = Request(
            verb="get", resource="pods", version="v1", namespace="a", name="none", user=cluster.admin_user
        )
        answers.send(admin, 1000)
        await cluster.run_for("12s")
        assert answers.served(TAKES_S + 0.1) == sum(SEATS.values()) + 1000
        assert not answers.refused()


@pytest.mark.parametrize(
    ("timeout", "takes_s", "wanted"), [("15s", 70, (15, 504)), ("60s", 61, (60, 504)), ("60s", 59, (59, 403))]
)
async def test_56_slow_request_ends_a_request_timeout_after_its_arrival(
    timeout: str, takes_s: int, wanted: tuple[int, int]
) -> None:
    async with Cluster(alone(request_timeout=timeout), seed=1) as cluster:
        await cluster.run_for("5s")
        cluster.api_servers["apiserver-0"].overload(takes_s * SECOND, None)
        answers = Answers(cluster)
        answers.send(asked(cluster, "global-default"), 3)
        await cluster.run_for("75s")
        assert [(round(at), reply.code) for at, reply in answers.told] == [wanted] * 3
        assert (
            len(
                {reply.reason for _, reply in answers.told} | {"Timeout" if wanted[1] == 504 else "Forbidden"}
            )
            == 1
        )


async def test_56_the_wait_for_a_seat_counts_as_time_of_the_request() -> None:
    """50 requests come at once, 49 have seats for the ten seconds that each takes; then requests
    take forty, and the last one's time of 48 s is over before it is done.
    """
    async with Cluster(alone(request_timeout="48s"), seed=1) as cluster:
        answers = await slow(cluster)
        answers.send(asked(cluster, "global-default"), 50)
        await cluster.run_for("5s")
        cluster.api_servers["apiserver-0"].overload(40 * SECOND, None)
        await cluster.run_for("60s")
        assert [reply.code for _, reply in answers.told] == [403] * 49 + [504]
        assert 48 <= answers.told[-1][0] <= 48.1
