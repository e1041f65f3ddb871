"""Carries the timeline of a plan out on a cluster.

Each step runs at its time as one callback: user actions become commands to the admin, faults act on actors,
links and storage.  Every step is a trace record ("step"), and the cause of all that follows from it; its end
(`for:`, a heal) is one too ("step-end").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from actors.users import ApplyAll, Cordon, DeleteAll, Drain, ScaleTo
from sim.app.cluster import Cluster
from sim.kernel import Actor, Rule
from sim.scenario import plan
from sim.scenario.plan import Action, PlannedStep

Hook = Callable[[str, str, int], None]
Undo = Callable[[], None]


def _nothing() -> None:
    return None


class Director:
    """Schedules a plan's steps; `on_step(name, kind, at_us)` is told of each as it happens."""

    def __init__(self, cluster: Cluster, on_step: Hook) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self._on_step = on_step
        self._undo: dict[str, Undo] = {}
        self._begin = self.kernel.kind("step", "name", "kind", "place", "detail")
        self._end = self.kernel.kind("step-end", "name")

    def schedule(self, steps: tuple[PlannedStep, ...]) -> None:
        for step in steps:
            self.kernel.call_at(step.at_us, self._run, step)

    def _run(self, step: PlannedStep) -> None:
        kernel = self.kernel
        detail = _detail(step.action)
        kernel.cause = 0
        # the file's name without its folder: where a scenario lies is no part of what happens in it
        place = step.place.rpartition("/")[2]
        kernel.cause = kernel.record(self._begin, (step.name, step.kind, place, detail))
        self._on_step(step.name, step.kind, kernel.now_us)
        if step.for_us is not None:
            kernel.call_later(step.for_us, self._finish, step.name)
        self._undo[step.name] = self._do(step.action, step.name)

    def _finish(self, name: str) -> None:
        undo = self._undo.pop(name, None)
        if undo is not None:
            self.kernel.cause = self.kernel.record(self._end, (name,))
            undo()

    def _do(self, action: Action, name: str) -> Undo:
        """Do it; returns what ends it."""
        match action:
            case plan.FailNodes(nodes, how):
                return self._fail_nodes(nodes, how, name)
            case plan.HealNodes(nodes):
                for node in nodes:
                    self.cluster.heal_node(node)
            case plan.RebootNodes(nodes, downtime_us):
                for node in nodes:
                    self.cluster.nodes[node].reboot(downtime_us)
            case plan.Disturb():
                return self._disturb(action)
            case plan.EndStep(step):
                self._finish(step)
            case plan.ActorFault(what, actors, amount_us):
                return self._actor_fault(what, actors, amount_us)
            case plan.SkewClock(actors, offset_us, drift_ppm):
                return self._skew(actors, offset_us, drift_ppm)
            case plan.StorageFault(how, by_us):
                self.cluster.storage_fault(how, by_us)
                return self.cluster.storage_heal
            case plan.LagCache(server, by_us):
                self.cluster.lag(server, by_us)
                return lambda: self.cluster.lag(server, 0)
            case plan.DropWatches(resource, client):
                self.cluster.drop_watches(resource, client)
            case plan.CompactHistory():
                self.cluster.compact()
            case _:
                self._command(action)
        return _nothing

    def _command(
        self,
        action: plan.ApplyObjects
        | plan.DeleteObjects
        | plan.ScaleObject
        | plan.CordonNodes
        | plan.DrainNodes,
    ) -> None:
        admin = self.cluster.admin
        match action:
            case plan.ApplyObjects(objects):
                admin.do(ApplyAll(objects))
            case plan.DeleteObjects(resource, namespace, name, selector, grace_s):
                admin.do(DeleteAll(resource, namespace, name, selector, grace_s))
            case plan.ScaleObject(resource, namespace, name, replicas):
                admin.do(ScaleTo(resource, namespace, name, replicas))
            case plan.CordonNodes(nodes, on):
                admin.do(Cordon(nodes, on))
            case plan.DrainNodes(nodes, timeout_us):
                admin.do(Drain(nodes, timeout_us))
            case _:
                assert_never(action)

    def _fail_nodes(self, nodes: tuple[str, ...], how: str, name: str) -> Undo:
        if how == "network-cut":
            self.kernel.network.impose(Rule(name, frozenset(nodes), None, cut=True))
            self.cluster.cut_nodes.update(dict.fromkeys(nodes, name))
            return lambda: self.cluster.restore_network(name)
        for node in nodes:
            self.cluster.fail_node(node, how)

        def undo() -> None:
            for node in nodes:
                self.cluster.heal_node(node)

        return undo

    def _disturb(self, action: plan.Disturb) -> Undo:
        low, high = action.latency_us or (None, None)
        self.kernel.network.impose(
            Rule(
                action.rule,
                frozenset(action.sources),
                frozenset(action.targets),
                cut=action.cut,
                low_us=low,
                high_us=high,
                loss=action.loss or None,
                duplication=action.duplication or None,
                both_ways=not action.one_way,
            )
        )
        return lambda: self.kernel.network.lift(action.rule)

    def _actor_fault(self, what: str, actors: tuple[str, ...], amount_us: int | None) -> Undo:
        found = [self.cluster.supervisor[self.cluster.actor_named(name)] for name in actors]
        for actor in found:
            if what == "crash":
                actor.crash("killed")
                if amount_us is not None:
                    self.kernel.call_later(amount_us, _start, actor)
            elif what == "stall":
                actor.pause()
            elif what == "slow":
                actor.slow(amount_us or 0)
            else:
                actor.start()

        def undo() -> None:
            for actor in found:
                if what == "crash":
                    actor.start()
                else:
                    actor.resume()

        return undo

    def _skew(self, actors: tuple[str, ...], offset_us: int, drift_ppm: int) -> Undo:
        clocks = [self.cluster.supervisor[self.cluster.actor_named(name)].clock for name in actors]
        self.kernel.standing.begin("clock", actors)
        for clock in clocks:
            clock.set(self.kernel.now_us, offset_us=offset_us, drift_ppm=drift_ppm)

        def undo() -> None:
            self.kernel.standing.end("clock", actors)
            for clock in clocks:
                clock.set(self.kernel.now_us, offset_us=0, drift_ppm=0)

        return undo


def _start(actor: Actor) -> None:
    actor.start()


def _detail(action: Action) -> dict[str, Any]:
    """What a step acts on, for the trace: plain values of its action."""
    fields = {name: getattr(action, name) for name in action.__dataclass_fields__}
    return {name: value for name, value in fields.items() if name != "objects"}
