"""Carries the timeline of a plan out on a cluster.

Turns planned steps into occurrences, each a callback at its instant: user actions become commands to the admin,
faults act on actors, links and storage.  An occurrence is a trace record ("step"), and the cause of all that follows
from it; the end of its fault (`for:`, a heal) is one too ("step-end", with the id of the record that began it).

Holds: a step's draws (its time, choice, targets, duration) come from a stream of its own, in the order of its
occurrences; a condition's step happens at the instant of the commit that made it hold, after everything already due
then, and the commit is its cause; occurrences of a step that repeats are named NAME/1, NAME/2, ….
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import log
from random import Random
from typing import Any, assert_never

from actors.node.runtime.profile import Override
from actors.users import (
    ApplyAll,
    Cordon,
    DeleteAll,
    Drain,
    EvictAll,
    LoadSpec,
    PatchAll,
    ScaleTo,
    SeizeLease,
    Taint,
)
from sim.app.cluster import Cluster
from sim.app.faults import TERMINATED
from sim.check import Observer, Trigger, World
from sim.kernel import Rule
from sim.scenario.plan import plan
from sim.scenario.plan.plan import Action, PlannedAction, PlannedStep, Span

# What somebody puts on a node: key and effect of a taint; of a cordon neither.
CLOSED = "", ""
_Mark = tuple[str, tuple[str, str]]
Hook = Callable[[str, str, int], None]
Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Active:
    """An occurrence whose fault goes on: the id of its record, its kind, and what ends it."""

    begin: int
    kind: str
    undo: Undo


class Director:
    """Schedules a plan's steps; `on_step(name, kind, at_us)` is told of each as it happens, and as it ends.

    The end of step NAME of a kind is told as "end of NAME" of kind "end of KIND".
    zones: of the nodes that there will be, for steps that wait for something in a zone (default: of those the cluster runs)
    """

    def __init__(self, cluster: Cluster, on_step: Hook, zones: Mapping[str, str] | None = None) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self._on_step = on_step
        self._zones = {node.name: node.zone for node in cluster.plan.nodes} if zones is None else zones
        self._observer = Observer(World(cluster.names), ())
        self._followers: list[_Course] = []
        self._active: dict[str, _Active] = {}
        self._marks: dict[str, tuple[_Mark, ...]] = {}  # what a step keeps on nodes
        self._begin = self.kernel.kind("step", "name", "kind", "detail")
        self._end = self.kernel.kind("step-end", "name", "step")

    def schedule(self, steps: tuple[PlannedStep, ...]) -> None:
        courses = [_Course(self, step) for step in steps]
        triggers = [course.trigger for course in courses if course.trigger is not None]
        if triggers:
            self._observer = Observer(World(self.cluster.names, self._zones), triggers)
            self.cluster.observe(self._observer.see)
        self._followers = [course for course in courses if course.follows]
        cause, self.kernel.cause = self.kernel.cause, 0
        for course in courses:
            course.start()
        self.kernel.cause = cause

    def _tell(self, name: str, kind: str) -> None:
        now_us = self.kernel.now_us
        self._on_step(name, kind, now_us)
        self._observer.step(name, kind, now_us)
        for course in self._followers:
            course.saw(name)

    def occur(self, step: PlannedStep, name: str, chosen: PlannedAction, for_us: int | None) -> None:
        """One occurrence of a step, now.  Its cause is the kernel's present one."""
        kernel = self.kernel
        begin = kernel.record(self._begin, (name, chosen.kind, _detail(chosen.action)))
        kernel.cause = begin
        undo = self._do(chosen.action, name)
        if undo is not None:
            self._active[name] = _Active(begin, chosen.kind, undo)
            if for_us is not None:
                kernel.call_later(for_us, self._finish, name)
        self._tell(name, chosen.kind)

    def _finish(self, name: str) -> None:
        active = self._active.pop(name, None)
        if active is not None:
            cause, self.kernel.cause = self.kernel.cause, self.kernel.record(self._end, (name, active.begin))
            active.undo()
            self._tell(f"end of {name}", f"end of {active.kind}")
            self.kernel.cause = cause  # what else is healed is not so by this end

    def _do(self, action: Action, name: str) -> Undo | None:
        """Do it; returns what ends it, if it has an end."""
        cluster = self.cluster
        match action:
            case plan.HealNodes(nodes):
                for node in nodes:
                    self._heal(node)
            case plan.EndStep(step):
                for active in [one for one in self._active if step in (one, one.rpartition("/")[0])]:
                    self._finish(active)
            case plan.ActorFault("start", actors):
                for actor in actors:
                    self._heal(cluster.actor_named(actor), "down")
            case plan.Disturb():
                return self._disturb(action, name)
            case plan.DropWatches(resource, client):
                cluster.drop_watches(resource, client)
            case plan.CompactHistory(keep_us):
                cluster.compact(keep_us)
            case plan.CordonNodes(nodes, on):
                cluster.admin.do(Cordon(nodes, on))
                return self._mark(name, [(node, CLOSED) for node in nodes], on)
            case plan.TaintNodes(nodes, taints, on):
                cluster.admin.do(Taint(nodes, taints if on else (), () if on else taints))
                pairs = [(taint["key"], taint.get("effect", "")) for taint in taints]
                return self._mark(name, [(node, pair) for node in nodes for pair in pairs], on)
            case plan.ChangeManifest(nodes, how, file, manifest):
                for one in (cluster.nodes[node] for node in nodes):
                    if how == "remove":
                        one.remove_manifest(file)
                    else:
                        one.write_manifest(file, manifest)
            case plan.TellMetric():
                cluster.told.tell(name, action, self.kernel.cause)
                return lambda: cluster.told.forget(name, self.kernel.cause)
            case plan.Generate():
                return cluster.admin.generate(name, _load(action))
            case (
                plan.ApplyObjects()
                | plan.DeleteObjects()
                | plan.PatchObjects()
                | plan.EvictPods()
                | plan.ScaleObject()
                | plan.DrainNodes()
                | plan.LoseLease()
            ):
                self._command(action)
            case _:
                self._impose(action, name)
                return lambda: cluster.faults.lift(name)
        return None

    def _mark(self, name: str, marks: list[_Mark], on: bool) -> Undo | None:
        """The step keeps these marks from now on, or takes them from all that keep them."""
        if on:
            self._marks[name] = tuple(marks)
            return lambda: self._unmark(name)
        for step, kept in self._marks.items():
            self._marks[step] = tuple(mark for mark in kept if not _covers(marks, mark))
        return None

    def _unmark(self, name: str) -> None:
        """The step keeps its marks no more: those that no other one does go."""
        marks = self._marks.pop(name)
        held = {mark: None for kept in self._marks.values() for mark in kept}
        free = [mark for mark in marks if mark not in held]
        for kind in dict.fromkeys(kind for _, kind in free):
            nodes = tuple(node for node, one in free if one == kind)
            gone = () if kind == CLOSED else ({"key": kind[0], "effect": kind[1]},)
            self.cluster.admin.do(Taint(nodes, (), gone) if gone else Cordon(nodes, False))

    def _heal(self, target: str, only: str = "") -> None:
        """End the faults of a target; steps that have none left by that are over."""
        faults = self.cluster.faults
        ended = faults.heal(target, only)
        if not only and not ended and target in self.cluster.nodes:
            self.cluster.supervisor[target].start()  # an agent that ended by itself
        for name in ended:
            self._finish(name)

    def _impose(
        self,
        action: plan.FailNodes
        | plan.PressNodes
        | plan.Behave
        | plan.ActorFault
        | plan.SkewClock
        | plan.StorageFault
        | plan.CloudFault
        | plan.Overload
        | plan.LagCache
        | plan.FreezeCache,
        name: str,
    ) -> None:
        """Faults that `Faults` keeps."""
        impose = self.cluster.faults.impose
        match action:
            case plan.FailNodes(nodes, how, by_us):
                for node in nodes:
                    self.cluster.faults.fail(name, node, how, by_us)
            case plan.PressNodes(nodes, resource, available, ramp_us):
                for node in nodes:
                    self.cluster.faults.press(name, node, resource, available, ramp_us)
            case plan.Behave(nodes):
                kernel = self.kernel
                override = replace(_override(action), record=kernel.cause, since_us=kernel.now_us)
                for node in nodes:
                    impose(name, node, "behaviour", override)
            case plan.ActorFault(what, actors, amount_us):
                aspect, value = {
                    "crash": ("down", "killed"),
                    "terminate": ("down", TERMINATED),
                    "stall": ("pause", True),
                }.get(what, ("slow", amount_us))
                for actor in actors:
                    impose(name, self.cluster.actor_named(actor), aspect, value)
            case plan.SkewClock(actors, offset_us, drift_ppm):
                for actor in actors:
                    impose(name, self.cluster.actor_named(actor), "clock", (offset_us, drift_ppm))
            case plan.StorageFault(how, by_us):
                aspect, value = {"pause": ("pause", True), "lost-quorum": ("quorum", True)}.get(
                    how, ("disk", by_us)
                )
                impose(name, "storage", aspect, value)
            case plan.CloudFault(how, by_us):
                aspect, value = ("outage", True) if how == "outage" else ("call", by_us)
                impose(name, "cloud", aspect, value)
            case plan.Overload(servers, by_us, inflight):
                for server in servers:
                    impose(name, server, "overload", (by_us, inflight))
            case plan.LagCache(servers, by_us):
                for server in servers:
                    impose(name, server, "lag", by_us)
            case plan.FreezeCache(servers):
                for server in servers:
                    impose(name, server, "frozen")
            case _:
                assert_never(action)

    def _command(
        self,
        action: plan.ApplyObjects
        | plan.DeleteObjects
        | plan.PatchObjects
        | plan.EvictPods
        | plan.ScaleObject
        | plan.DrainNodes
        | plan.LoseLease,
    ) -> None:
        """What the admin does once."""
        admin = self.cluster.admin
        match action:
            case plan.ApplyObjects(objects):
                admin.do(ApplyAll(objects))
            case plan.DeleteObjects(resource, namespace, name, selector, grace_s, policy):
                admin.do(DeleteAll(resource, namespace, name, selector, grace_s, policy or ""))
            case plan.PatchObjects():
                target = action.resource, action.namespace, action.name, action.selector
                admin.do(PatchAll(*target, action.merge, action.subresource or ""))
            case plan.EvictPods(namespace, name, selector):
                admin.do(EvictAll(namespace, name, selector))
            case plan.ScaleObject(resource, namespace, name, replicas):
                admin.do(ScaleTo(resource, namespace, name, replicas))
            case plan.DrainNodes(nodes, timeout_us):
                admin.do(Drain(nodes, timeout_us))
            case plan.LoseLease(component, holder):
                admin.do(SeizeLease(component, holder))
            case _:
                assert_never(action)

    def _disturb(self, action: plan.Disturb, name: str) -> Undo:
        low, high = action.latency_us or (None, None)
        rule = f"step {name}"  # the cluster has rules of its own
        self.kernel.network.impose(
            Rule(
                rule,
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
        return lambda: self.kernel.network.lift(rule)


class _Course:
    """One step through its occurrences."""

    def __init__(self, director: Director, step: PlannedStep) -> None:
        self._director = director
        self._kernel = director.kernel
        self._step = step
        self._random: Random = director.kernel.stream(f"scenario/{step.name}")
        self._count = 0
        self._over = False
        start = step.start
        self.trigger: Trigger | None = None
        if start.condition is not None:
            names = director.cluster.names
            self.trigger = Trigger(start.condition, names, start.after, self._delayed)
        self.follows = start.at_us is None and start.condition is None

    def start(self) -> None:
        if self._step.start.at_us is not None:
            self._plan(self._draw(self._step.start.at_us))

    def saw(self, name: str) -> None:
        """A step happened or ended: is it the one to follow?"""
        if self._step.start.after in (name, name.rpartition("/")[0]):
            self.follows = False
            self._director._followers = [one for one in self._director._followers if one.follows]
            self._delayed()

    def _delayed(self) -> None:
        repeat = self._step.repeat
        if self.trigger is not None and (repeat is None or repeat.every_us or repeat.mean_gap_us):
            self.trigger.close()
        self._plan(self._kernel.now_us + self._draw(self._step.start.delay_us))

    def _plan(self, at_us: int) -> None:
        """At that instant, if that is not too late for it; what was planned before stays so."""
        repeat = self._step.repeat
        if repeat is None or repeat.until_us is None or at_us <= repeat.until_us:
            self._kernel.call_at(at_us, self._happen)

    def _happen(self, _: Any) -> None:
        step, repeat, kernel = self._step, self._step.repeat, self._kernel
        if self._over:
            return
        cause = kernel.cause
        self._count += 1
        chosen = self._choose()
        for_us = None if chosen.for_us is None else self._draw(chosen.for_us)
        name = step.name if repeat is None else f"{step.name}/{self._count}"
        self._director.occur(step, name, chosen, for_us)
        kernel.cause = cause  # the next occurrence does not follow from this one
        if repeat is None or self._count == repeat.times:
            self._over = True
        elif repeat.every_us is not None:
            self._plan(kernel.now_us + self._draw(repeat.every_us))
        elif repeat.mean_gap_us is not None:
            self._plan(kernel.now_us + exponential_us(self._random, repeat.mean_gap_us))

    # --- draws --------------------------------------------------------------------------------------------

    def _draw(self, span: Span) -> int:
        low_us, high_us = span
        return low_us if low_us == high_us else self._random.randint(low_us, high_us)

    def _choose(self) -> PlannedAction:
        choices = self._step.choices
        chosen = choices[0]
        if len(choices) > 1:
            (chosen,) = self._random.choices(choices, [choice.weight for choice in choices])
        if chosen.pick is None:
            return chosen
        action: Any = chosen.action
        key = "nodes" if hasattr(action, "nodes") else "actors"
        everyone = getattr(action, key)
        picked = sorted(self._random.sample(range(len(everyone)), chosen.pick))
        return replace(chosen, action=replace(action, **{key: tuple(everyone[index] for index in picked)}))


def exponential_us(random: Random, mean_us: int) -> int:
    """A gap between things that happen at random at a steady rate."""
    return 1 + int(-mean_us * log(1.0 - random.random()))


def _override(action: plan.Behave) -> Override:
    """What the node's profile calls the behaviour of a plan."""
    changes: dict[str, Any] = {
        "exit_after_us": action.exit_after_us,
        "exit_code": action.exit_code,
        "healthy_after_us": action.ready_after_us,
        "start_error": action.start_error,
        "memory_bytes": action.memory,
        "log_rate": action.log_rate,
        "cpu_milli": action.cpu_milli,
        "load_milli": action.load_milli,
    }
    changes = {key: value for key, value in changes.items() if value is not None}
    if action.unready is not None:
        changes["unhealthy_after_us"] = 0 if action.unready else None
    if action.stop_us is not None:
        changes["stop_us"] = None if action.stop_us < 0 else action.stop_us
    return Override(
        changes,
        namespace=action.namespace,
        labels=action.labels,
        pod_prefix=action.prefix,
        image=action.image,
        container=action.container,
        pull_error=action.pull_error or "",
    )


def _load(action: plan.Generate) -> LoadSpec:
    return LoadSpec(
        mean_gap_us=action.mean_gap_us,
        create=action.create,
        lifetime_us=action.lifetime_us,
        scale=action.scale,
        list_of=action.list_of,
    )


def _covers(marks: list[_Mark], mark: _Mark) -> bool:
    """Whether what is taken away includes this: a taint without an effect is that of any."""
    node, (key, _) = mark
    return mark in marks or (node, (key, "")) in marks


def _detail(action: Action) -> dict[str, Any]:
    """What a step acts on, for the trace: plain values of its action."""
    fields = {name: getattr(action, name) for name in action.__dataclass_fields__}
    told = {
        name: value
        for name, value in fields.items()
        if name not in ("objects", "create", "merge", "manifest")
    }
    return {
        name: value for name, value in told.items() if value is not None and (name, value) != ("by_us", 0)
    }
