"""Graceful node shutdown: pods end, by priority, before the machine powers off.

Turns the operating system's request to shut down into the end of the node's pods, group after
group, while the agent delays the shutdown.

Holds: a shutdown is delayed at most by the sum of the groups' periods; no new pod is admitted
during it.

Mirrors  pkg/kubelet/nodeshutdown/nodeshutdown_manager_linux.go: processShutdownEvent,
         groupByPriority, migrateConfig (v1.25).
Differs  the operating system's own limit for delays of a shutdown is always long enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from actors.node.heartbeat.node_loop import NodeLoop
from actors.node.pod_spec import priority_of
from actors.node.pod_work import ENDING, SYNC, Override
from actors.node.runtime.ports import Agent, NodePod
from sim.units import SECOND

EVENT = "Shutdown"
OVERRIDE: Override = ("", "Terminated", "Pod was terminated in response to imminent node shutdown.")
REFUSAL = ("NodeShutdown", "Pod was rejected as the node is shutting down.")
NOT_READY = "node is shutting down"


def group_of(groups: Sequence[tuple[int, int]], priority: int) -> int:
    """The index of a pod's group: the highest that is not above its priority, else the lowest."""
    eligible = [index for index, (lowest, _) in enumerate(groups) if lowest <= priority]
    return eligible[-1] if eligible else 0


def grace_s(spec_s: int | None, group_us: int) -> int:
    """The grace period of a pod: its own, at most that of its group."""
    group_s = group_us // SECOND
    return group_s if spec_s is None else min(spec_s, group_s)


class Shutdown:
    """The shutdown manager of one agent incarnation.

    active: True while the node is shutting down
    _done: ends the agent's delay of the shutdown
    _running: the pods of the present group that still run
    _group: the index of the present group; -1 while no pods are being ended
    """

    __slots__ = ("_agent", "_cancelled", "_done", "_group", "_groups", "_node_loop", "_running", "active")

    def __init__(self, agent: Agent, node_loop: NodeLoop) -> None:
        self._agent, self._node_loop = agent, node_loop
        self.active = False
        self._cancelled = False
        self._done: Callable[[], None] | None = None
        self._groups: list[list[NodePod]] = []
        self._running: list[NodePod] = []
        self._group = -1

    def begin(self, done: Callable[[], None]) -> None:
        """Delay a shutdown of the machine until `done` is called."""
        agent = self._agent
        # Without groups, or before the runtime is ready, the shutdown manager has not started.
        if not agent.options.shutdown_groups or not agent.runtime.up:
            done()
            return
        self._done = done
        self._cancelled = False
        if not self.active:
            self.active = True
            agent.node_event(EVENT, "Shutdown manager detected shutdown event")
            self._node_loop.run_extra_pass()
            self._group = -1
            self._groups = self._by_priority()
            self._next_group(-1)

    def _by_priority(self) -> list[list[NodePod]]:
        """The pods of each group.

        Quirk: a pod that ends by itself before its group's turn is waited for as if it ran.
        """
        groups = self._agent.options.shutdown_groups
        found: list[list[NodePod]] = [[] for _ in groups]
        for worker in self._agent.workers.values():
            if worker.state in (SYNC, *ENDING) and not worker.removed:
                found[group_of(groups, priority_of(worker.pod))].append(worker)
        return found

    def cancel(self) -> None:
        """The machine stays up.  Quirk: pods that are being ended end first."""
        self._done = None
        if self.active and self._group >= 0:
            self._cancelled = True
        elif self.active:
            self._resume()

    def _resume(self) -> None:
        self.active = False
        self._cancelled = False
        self._agent.node_event(EVENT, "Shutdown manager detected shutdown cancellation")
        self._agent.node_changed()

    def _next_group(self, after: int) -> None:
        """The group `after` has ended: end the pods of the next one that has any."""
        if after != self._group:
            return
        agent = self._agent
        for group in range(after + 1, len(self._groups)):
            self._running = self._groups[group]
            if self._running:
                self._group = group
                group_us = agent.options.shutdown_groups[group][1]
                for worker in list(self._running):
                    own = worker.pod["spec"].get("terminationGracePeriodSeconds")
                    then = partial(self._ended, worker)
                    agent.end_pod(worker, OVERRIDE, then, grace_s(own, group_us))
                agent.ctx.call_later_us(group_us, self._next_group, group)
                return
        self._group, self._running = -1, []
        if self._cancelled:
            self._resume()
        elif self._done is not None:
            self._done()

    def _ended(self, worker: NodePod, _: bool) -> None:
        """The pod runs no more, or its time is over."""
        if worker in self._running:
            self._running.remove(worker)
            if not self._running:
                self._next_group(self._group)
