"""What a cluster offers to the expectations that judge it: commits, machines, processes, causes.

Holds: nothing of a run depends on its checkers, and its trace is the same with and without them.
"""

from __future__ import annotations

from typing import Any

from sim.app.cluster import Cluster
from sim.check import Checker
from sim.check.origins import Origins
from sim.units import Virtual


def take_part(cluster: Cluster, checker: Checker) -> None:
    """Let a checker take part in a run from now on."""
    kernel = cluster.kernel
    cluster.observe(checker.see, checker.resources)
    cluster.watch_machines(checker.machine)
    cluster.machine_watch.watch_programs(checker)
    for name, actor in cluster.supervisor.actors.items():
        if actor.running:
            checker.process("start", name, kernel.now_us)
    if any(expectation.needs_origins for expectation in checker.expectations):
        checker.world.origins = origins = Origins()
        kernel.trace.follow(origins.see)

    def process(_: int, at_us: Virtual, __: int, values: tuple[Any, ...]) -> None:
        checker.process(values[0], values[1], at_us)

    if any(expectation.needs_processes for expectation in checker.expectations):
        kernel.trace.listen(cluster.supervisor.kind, process)


def requests_by_client(cluster: Cluster) -> dict[str, int]:
    """The numbers of requests that the API servers have answered, by the name of the client."""
    counts: dict[str, int] = {}
    for server in cluster.api_servers.values():
        for (client, _), count in server.tally.items():
            counts[client] = counts.get(client, 0) + count
    return counts
