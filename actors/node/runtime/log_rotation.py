"""Rotates the logs of containers that have become too large.

Turns the logs on a machine into rotations, at the ticks of a loop, and lets the agent plan what
depends on the disk.

Holds: while no running container writes a growing log, nothing is scheduled; without an agent, with
a runtime that does not answer, or with a negative size limit, logs grow without bound.

Mirrors  pkg/kubelet/logs/container_log_manager.go: Start, rotateLogs (v1.25): one goroutine, a pass
         at once and every 10 s.
Differs  a pass takes no time.
"""

from __future__ import annotations

from actors.node.runtime.ports import Agent
from sim.units import SECOND

PERIOD_US = 10 * SECOND  # logMonitoringPeriod


class LogRotation:
    """The log rotation of one agent incarnation.

    _began_us: the start of the loop; -1 before the runtime was ready for the first time
    _planned: True if the next tick is scheduled
    """

    __slots__ = ("_agent", "_began_us", "_planned")

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._began_us = -1
        self._planned = False

    def start(self) -> None:
        """Start the loop, which begins with a pass."""
        self._began_us = self._agent.now_us
        self._pass()

    def consider(self) -> None:
        """Plan the next tick if a log grows."""
        agent = self._agent
        if not self._planned and self._began_us >= 0 and self._is_due_soon():
            self._planned = True
            wait_us = PERIOD_US - (agent.now_us - self._began_us) % PERIOD_US
            agent.ctx.call_later_us(wait_us, self._tick)
            agent.machine.rotation_us = agent.now_us + wait_us

    def _is_due_soon(self) -> bool:
        """True if a log grows, or a program has written more than a file may have."""
        agent = self._agent
        size_max = agent.options.container_log_max_bytes
        machine = agent.machine
        return machine.growing(agent.now_us) or (
            size_max >= 0
            and any(one.size >= max(1, size_max) and not one.ended for one in machine.outputs.values())
        )

    def _tick(self, _: object) -> None:
        self._planned = False
        self._pass()
        self._agent.consider_pressure()

    def _pass(self) -> None:
        agent = self._agent
        machine, now_us, size_max = agent.machine, agent.now_us, agent.options.container_log_max_bytes
        if size_max >= 0 and (machine.logs or machine.outputs) and not agent.runtime.silent:
            for pod in machine.pods.values():
                for container in pod.running(now_us):
                    log = machine.log_of(container)
                    if log is not None and log.live(now_us) >= size_max:
                        files = log.rotate(agent.options.container_log_max_files, now_us)
                        machine.keep_log(container, files)
                    output = machine.output_of(container)
                    if output is not None and output.size >= max(1, size_max):
                        output.rotate(agent.options.container_log_max_files)
