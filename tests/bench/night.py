"""What goes wrong at night in a full cluster, one thing after the other: what each costs.

python -m tests.bench.night [NODES [PODS]] [UPSET ...]

Each upset (all of `UPSETS`, or those named) and three virtual minutes after it; then every pod has
to run again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import trio

from sim.app.cluster import Cluster
from sim.app.process.garbage import no_collection
from sim.kernel.tasks import ALONE_S
from tests.bench.big import Clock, fill, planned, sizes
from tests.bench.timing import machine

DOWN, AFTER = "5s", "3m"
Upset = Callable[[Cluster], list[str]]


def nothing(cluster: Cluster) -> list[str]:
    return []


def manager(cluster: Cluster) -> list[str]:
    return [cluster.actor_named("controller-manager-leader")]


def scheduler(cluster: Cluster) -> list[str]:
    return [cluster.actor_named("scheduler-leader")]


def server(cluster: Cluster) -> list[str]:
    return list(cluster.api_servers)


def agents(cluster: Cluster) -> list[str]:
    return list(cluster.nodes)


def watches(cluster: Cluster) -> list[str]:
    """All watches end, and none can continue: every client lists everything again."""
    cluster.compact()
    cluster.drop_watches("", "")
    return []


# The kinds of events; some crash a process, which starts again a little later.
UPSETS: dict[str, Upset] = {
    "nothing": nothing,
    "watches": watches,
    "manager": manager,
    "scheduler": scheduler,
    "server": server,
    "agents": agents,
}


async def measure(nodes: int, pods: int, names: Sequence[str]) -> None:
    with no_collection():
        async with Cluster(planned(nodes, ()), seed=1) as cluster:
            cluster.kernel.slice_s = ALONE_S
            clock = Clock(cluster)
            await fill(cluster, clock, pods)
            actors = cluster.supervisor.actors
            for name in names:
                crashed = UPSETS[name](cluster)
                for actor in crashed:
                    actors[actor].crash("upset")
                await cluster.run_for(DOWN)
                for actor in crashed:
                    actors[actor].start()
                await cluster.run_for(AFTER)
                assert cluster.counts()["running"] == pods, f"{name}: {cluster.counts()}"
                clock.tell(name)
            clock.end()


def main() -> None:
    words = sys.argv[1:]
    names = [word for word in words if not word.isdigit()] or [*UPSETS]
    if unknown := [name for name in names if name not in UPSETS]:
        sys.exit(f"no such upset: {', '.join(unknown)}; there are {', '.join(UPSETS)}")
    print(machine())
    trio.run(measure, *sizes(words), names)


if __name__ == "__main__":
    main()
