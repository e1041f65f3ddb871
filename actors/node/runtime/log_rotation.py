"""Rotates the logs of containers that have become too large.

Turns the logs on a machine into rotations, at the ticks of a loop, and tells who watches its disk what grows.

Holds: while nothing that runs writes a log that grows, nothing is scheduled; without an agent, with a runtime that does not
answer, or with a size below zero logs grow for good.

Mirrors  pkg/kubelet/logs/container_log_manager.go: Start, rotateLogs (v1.25): one goroutine, a pass at once and each 10 s.
Differs  a pass takes no time.
"""

from __future__ import annotations

from actors.node.runtime.ports import RuntimeHost
from sim.units import SECOND

PERIOD_US = 10 * SECOND  # logMonitoringPeriod


class LogRotation:
    """One agent's.  _began_us: of its loop, -1 before the runtime was ready first."""

    __slots__ = ("_agent", "_began_us", "_due")

    def __init__(self, agent: RuntimeHost) -> None:
        self._agent = agent
        self._began_us = -1
        self._due = False

    def start(self) -> None:
        self._began_us = self._agent.now_us
        self._pass()

    def consider(self) -> None:
        """There may be a log that grows."""
        agent = self._agent
        if not self._due and self._began_us >= 0 and agent.machine.growing(agent.now_us):
            self._due = True
            wait_us = PERIOD_US - (agent.now_us - self._began_us) % PERIOD_US
            agent.ctx.call_later_us(wait_us, self._tick)
            agent.machine.looked_us = agent.now_us + wait_us

    def _tick(self, _: object) -> None:
        self._due = False
        self._pass()
        self._agent.consider_pressure()

    def _pass(self) -> None:
        agent = self._agent
        machine, now_us, most = agent.machine, agent.now_us, agent.options.container_log_max_bytes
        if most >= 0 and machine.logs and not agent.runtime.silent:
            for pod in machine.pods.values():
                for container in pod.running(now_us):
                    log = machine.log_of(container)
                    if log is not None and log.live(now_us) >= most:
                        files = log.rotate(agent.options.container_log_max_files, now_us)
                        machine.keep_log(container, files)
