"""One timeline step's body to an `Action`, with everything it names checked against the cluster."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import UNSET

from sim.scenario import plan, schema
from sim.scenario.plan import Action, ClusterPlan, NodePlan
from sim.scenario.source import Document

Path_ = tuple[str | int, ...]
ROLES = ("controller-manager-leader", "scheduler-leader")


class Compiler(Protocol):
    """What planning an action needs of its surroundings."""

    document: Document

    def duration(self, text: str, path: Path_) -> int: ...
    def latency(self, text: str | None, path: Path_) -> tuple[int, int] | None: ...
    def objects_of(self, body: schema.Apply, path: Path_, naming: str) -> list[Mapping[str, Any]]: ...


@dataclass(slots=True)
class Known:
    """What steps may name: nodes, actors, objects made so far, earlier steps."""

    nodes: tuple[NodePlan, ...]
    actors: tuple[str, ...]
    objects: list[tuple[str, str, str]]
    steps: dict[str, Action] = field(default_factory=dict)

    @staticmethod
    def of(cluster: ClusterPlan, objects: Sequence[Mapping[str, Any]]) -> Known:
        control = [
            f"{name}-{index}"
            for name, part in (
                ("apiserver", cluster.api_server),
                ("controller-manager", cluster.controller_manager),
                ("scheduler", cluster.scheduler),
            )
            for index in range(part.replicas)
        ]
        known = Known(cluster.nodes, ("storage", *control, *ROLES), [])
        known.add(objects)
        return known

    def add(self, objects: Sequence[Mapping[str, Any]]) -> None:
        for obj in objects:
            meta = obj["metadata"]
            plural = obj["kind"].lower() + ("es" if obj["kind"].endswith(("s", "y")) else "s")
            self.objects.append((plural, str(meta.get("namespace", "default")), str(meta["name"])))


def plan_action(compiler: Compiler, known: Known, step: str, body: Any, path: Path_, naming: str) -> Action:
    """The action of a step.  Raises InputError with the place of what is wrong."""
    return _PLANNERS[type(body)](_Where(compiler, known, step, path, naming), body)


@dataclass(slots=True)
class _Where:
    compiler: Compiler
    known: Known
    step: str
    path: Path_
    naming: str

    def duration(self, text: str, key: str) -> int:
        return self.compiler.duration(text, (*self.path, key))

    def nodes(self, wanted: schema.Nodes, key: str = "nodes") -> tuple[str, ...]:
        found = [node for node in self.known.nodes if _selects(wanted, node)]
        if wanted.count is not UNSET:
            found = found[: wanted.count]
        if not found:
            zones = sorted({node.zone for node in self.known.nodes if node.zone})
            remedy = f"{len(self.known.nodes)} nodes" + (f" in zones {', '.join(zones)}" if zones else "")
            raise self.compiler.document.error(
                (*self.path, key), "no node matches this selection", f"there are {remedy}"
            )
        return tuple(node.name for node in found)

    def actors(self, wanted: str | list[str], key: str, hosts: bool = False) -> tuple[str, ...]:
        names = [wanted] if isinstance(wanted, str) else wanted
        found: list[str] = []
        nodes = {node.name: node for node in self.known.nodes}
        for name in names:
            zone = name.removeprefix("zone ")
            if zone != name:
                members = [node.name for node in self.known.nodes if node.zone == zone]
            elif name == "nodes":
                members = list(nodes)
            else:
                members = [
                    a
                    for a in (*self.known.actors, *nodes)
                    if a == name or (a.startswith(f"{name}-") and a not in ROLES)
                ]
            if not members or (hosts and name in ROLES):
                near = difflib.get_close_matches(name, [*self.known.actors, *nodes], n=1)
                remedy = (
                    f"did you mean {near[0]!r}?"
                    if near
                    else f"known are {', '.join(self.known.actors)}, node names, 'nodes' and 'zone Z'"
                )
                raise self.compiler.document.error((*self.path, key), f"no actor is named {name!r}", remedy)
            found += [member for member in members if member not in found]
        return tuple(found)


def _selects(wanted: schema.Nodes, node: NodePlan) -> bool:
    def among(value: str, choice: Any) -> bool:
        return choice is UNSET or value == choice or (isinstance(choice, list) and value in choice)

    labels = {} if wanted.labels is UNSET else wanted.labels
    assert isinstance(labels, dict)
    return (
        among(node.zone, wanted.zone)
        and among(node.name, wanted.name)
        and all(node.labels.get(key) == value for key, value in labels.items())
    )


def _heal(where: _Where, body: schema.Heal) -> Action:
    if (body.nodes is UNSET) == (body.step is UNSET):
        raise where.compiler.document.error(where.path, "heals either nodes or a step")
    if isinstance(body.step, str):
        if body.step not in where.known.steps:
            raise where.compiler.document.error(
                (*where.path, "step"), f"no earlier step is named {body.step!r}"
            )
        return plan.EndStep(body.step)
    assert isinstance(body.nodes, schema.Nodes)
    return plan.HealNodes(where.nodes(body.nodes))


def _partition(where: _Where, body: schema.Partition) -> Action:
    one, other = (where.actors(group, "between", hosts=True) for group in body.between)
    return plan.Disturb(where.step, one, other, cut=True, one_way=body.one_way)


def _network(where: _Where, body: schema.Network) -> Action:
    one, other = (where.actors(group, "between", hosts=True) for group in body.between)
    latency = where.compiler.latency(body.latency, (*where.path, "latency"))
    return plan.Disturb(where.step, one, other, False, body.one_way, latency, body.loss, body.duplication)


def _actor_fault(what: str) -> Callable[[_Where, Any], Action]:
    def planned(where: _Where, body: Any) -> Action:
        amount = None
        if isinstance(body, schema.Crash) and body.restart_after is not None:
            amount = where.duration(body.restart_after, "restartAfter")
        if isinstance(body, schema.Slow):
            amount = where.duration(body.by, "by")
        return plan.ActorFault(what, where.actors(body.actor, "actor"), amount)

    return planned


def _stall(where: _Where, body: schema.Stall) -> Action:
    what = where.path[-1]
    return plan.ActorFault(str(what), where.actors(body.actor, "actor"))


def _clock(where: _Where, body: schema.Clock) -> Action:
    text = body.offset
    offset = where.duration(text.lstrip("+-"), "offset")
    return plan.SkewClock(
        where.actors(body.actor, "actor"), -offset if text.startswith("-") else offset, body.drift_ppm
    )


def _apply(where: _Where, body: schema.Apply) -> Action:
    objects = where.compiler.objects_of(body, where.path, where.naming)
    where.known.add(objects)
    return plan.ApplyObjects(tuple(objects))


def _known_object(where: _Where, resource: str, namespace: str, name: str) -> None:
    plural = resource.split(".")[0]
    if (plural, namespace, name) not in where.known.objects and any(
        p == plural for p, _, _ in where.known.objects
    ):
        near = ", ".join(f"{ns}/{n}" for p, ns, n in where.known.objects if p == plural)
        raise where.compiler.document.error(
            (*where.path, "name"),
            f"no {plural} {namespace}/{name} is made by this scenario",
            f"there are: {near}",
        )
    if not any(p == plural for p, _, _ in where.known.objects):
        raise where.compiler.document.error(
            (*where.path, "resource"), f"no {resource} are made by this scenario"
        )


def _scale(where: _Where, body: schema.Scale) -> Action:
    _known_object(where, body.resource, body.namespace, body.name)
    return plan.ScaleObject(body.resource, body.namespace, body.name, body.replicas)


def _delete(where: _Where, body: schema.Delete) -> Action:
    if (body.name is UNSET) == (body.selector is UNSET):
        raise where.compiler.document.error(where.path, "deletes either one name or what a selector matches")
    name = body.name if isinstance(body.name, str) else ""
    selector = body.selector if isinstance(body.selector, str) else ""
    grace = body.grace_period_seconds if isinstance(body.grace_period_seconds, int) else None
    return plan.DeleteObjects(body.resource, body.namespace, name, selector, grace)


def _lag(where: _Where, body: schema.Lag) -> Action:
    (server, *_) = where.actors(body.api_server, "apiServer")
    return plan.LagCache(server, where.duration(body.by, "by"))


_PLANNERS: dict[type, Callable[[_Where, Any], Action]] = {
    schema.Fail: lambda where, body: plan.FailNodes(where.nodes(body.nodes), body.how),
    schema.Heal: _heal,
    schema.Reboot: lambda where, body: plan.RebootNodes(
        where.nodes(body.nodes), where.duration(body.downtime, "downtime")
    ),
    schema.Partition: _partition,
    schema.Network: _network,
    schema.Crash: _actor_fault("crash"),
    schema.Stall: _stall,
    schema.Slow: _actor_fault("slow"),
    schema.Clock: _clock,
    schema.Storage: lambda where, body: plan.StorageFault(body.how, where.duration(body.by, "by")),
    schema.Lag: _lag,
    schema.DropWatches: lambda where, body: plan.DropWatches(body.resource, body.client),
    schema.Compact: lambda where, body: plan.CompactHistory(),
    schema.Apply: _apply,
    schema.Scale: _scale,
    schema.Delete: _delete,
    schema.Cordon: lambda where, body: plan.CordonNodes(where.nodes(body.nodes), where.path[-1] == "cordon"),
    schema.Drain: lambda where, body: plan.DrainNodes(
        where.nodes(body.nodes), where.duration(body.timeout, "timeout")
    ),
}
