"""Faults of processes: the power and life of machines and processes, and their pace.

Several faults use these aspects: a power loss, a reboot and a crash all end a process.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from sim.dataclass import dataclass
from sim.faults.shared.kinds import Imposed, Stage
from sim.faults.shared.ledger import Aspect, AspectName, Ledger
from sim.kernel.actor import PROCESS

TERMINATED = "terminated"  # reason of a graceful end; every other reason ends a process at once
STOPPED, DELETED = "stopped", "deleted"  # states of a node's instance in the cloud


@dataclass(frozen=True, slots=True)
class ProcessFault(Imposed):
    """A fault of processes.  `actors` may name a role ("controller-manager-leader")."""

    what: str
    actors: tuple[str, ...]
    picked: ClassVar[str] = "actors"

    @abstractmethod
    def entry(self) -> tuple[AspectName, Any]:
        """The aspect of each process, and its value."""

    def impose(self, stage: Stage, step: str) -> None:
        """Put the fault into force for each process."""
        aspect, value = self.entry()
        for actor in self.actors:
            stage.faults.impose(step, stage.cluster.actor_named(actor), aspect, value)


def _settle_life(ledger: Ledger, name: str) -> None:
    """Power of a machine, and whether a process may run."""
    actor, node = ledger.cluster.supervisor[name], ledger.cluster.nodes.get(name)
    down = ledger.values(name, "down")
    actor.barred = bool(down)
    if node is not None:
        instance = ledger.values(name, "instance")
        if instance or ledger.values(name, "power"):
            if node.machine.powered:
                node.power_loss()
            if DELETED in instance:
                node.machine.erase()
            return
        if ledger.values(name, "shutdown"):
            node.shutdown()
        else:
            node.cancel_shutdown()
            if not node.machine.powered:
                node.power_on()
    kills = [reason for reason in down if reason != TERMINATED]
    if kills:
        actor.crash(kills[-1])
    elif down:
        actor.terminate()
    elif not ledger.values(name, "shutdown"):
        actor.start()


def _settle_pace(ledger: Ledger, name: str) -> None:
    """A process is paused, slow or free."""
    actor = ledger.cluster.supervisor[name]
    pace = -1 if ledger.values(name, "pause") else sum(ledger.values(name, "slow"))
    before = ledger.paces.get(name, 0)
    if pace == before:
        return
    ledger.paces[name] = pace
    settle_cache_lag(ledger, name)
    if pace < 0:
        actor.pause()
        return
    if before < 0 or not pace:
        actor.resume(pace)
    if pace:
        actor.slow(pace)


def settle_cache_lag(ledger: Ledger, name: str) -> None:
    """Watch caches trail by all lags together; those of a slow API server also by its slowness."""
    server = ledger.cluster.api_servers.get(name)
    if server is not None:
        server.trail.lag(sum(ledger.values(name, "lag")) + sum(ledger.values(name, "slow")))


def process_started(ledger: Ledger, name: str) -> None:
    """Apply the pace of a process to its new incarnation."""
    ledger.paces.pop(name, None)
    _settle_pace(ledger, name)


def _attribute_death(ledger: Ledger, name: str, record: int) -> None:
    if not ledger.cluster.supervisor[name].running:
        ledger.kernel.standing.pass_on(PROCESS, name, record)


def _attribute_pause(ledger: Ledger, name: str, record: int) -> None:
    if ledger.cluster.supervisor[name].running:
        ledger.kernel.standing.pass_on(PROCESS, name, record)


LIVES: tuple[AspectName, ...] = ("power", "instance", "shutdown", "down")
LIFE = tuple(Aspect(name, _settle_life, group="life", attribute=_attribute_death) for name in LIVES)
PACE = (
    Aspect("pause", _settle_pace, attribute=_attribute_pause),
    Aspect("slow", _settle_pace),
)
