"""The examination of one node as steps: what its health, taints and pods need.  Pure.

Turns a node that is not known to be healthy, and the answers to its writes, into the next action.

Holds: the taints of a node follow from the Ready status that it had before this examination.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/node_lifecycle_controller.go
         (monitorNodeHealth, tryUpdateNodeHealth, processTaintBaseEviction, markNodeAsReachable).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

from actors.controllers.nodelifecycle.decide import (
    NO_EXECUTE,
    Counted,
    Health,
    Healthy,
    Phase,
    Settled,
    has_taint,
    next_health_try,
    observe,
    opposite_taint,
    renew_time,
    silent_status,
    taint_for,
)
from actors.controllers.shared.steps import Event, Get, Sleep, T
from sim.api.objects import condition_of
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import format_time, parse_time


@dataclass(frozen=True, slots=True)
class WriteSilence:
    """Record that a node is silent, and write its status.  lease: its revision, "" without one"""

    health: Health
    node: Obj
    silent_us: int
    lease: str


@dataclass(frozen=True, slots=True)
class Count:
    """Count a node in its zone, as ready or not.  node: None to leave it out"""

    health: Health
    node: Obj | None
    ready: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """Let what follows have the cause of the node's Ready status."""

    health: Health
    status: str


@dataclass(frozen=True, slots=True)
class Swap:
    """Add NoExecute taints, then remove others."""

    node: Obj
    add: Sequence[str]
    remove: Sequence[str]


@dataclass(frozen=True, slots=True)
class Queue:
    """Queue a node for its taint.  again: even if it was taken from the queue before"""

    node: Obj
    again: bool


@dataclass(frozen=True, slots=True)
class Unqueue:
    """Take a node out of the queue of its zone."""

    node: Obj


@dataclass(frozen=True, slots=True)
class MarkPods:
    """Write Ready=False into the pods of a node."""

    node: str


Action = WriteSilence | Count | Attribute | Swap | Queue | Unqueue | MarkPods | Event | Get | Sleep


class Answer(NamedTuple):
    """What follows an action.

    done: False if a write of taints or pods failed
    now_us, wall_us: after a `Get` or `Sleep` the time by both clocks, at the turn of the node
    """

    reply: Reply
    done: bool
    now_us: int = 0
    wall_us: int = 0


Steps = Generator[Action, Answer, T]


class Seen(NamedTuple):
    """What an examination sees besides the node.

    grace_us: of a node's silence; startup_grace_us: that of a node without a status
    unmarked: nodes with pods that could not all be marked
    now_us, wall_us: the time by both clocks, at the turn of the node
    """

    names: Names
    grace_us: int
    startup_grace_us: int
    unmarked: dict[str, None]
    now_us: int
    wall_us: int


def node_ref(node: Obj) -> Obj:
    """A reference to a node for events, which name it by its uid."""
    meta = node["metadata"]
    return {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}


def node_event(ref: Obj, reason: str, message: str) -> Event:
    """An event about a node."""
    return Event(ref, "Normal", reason, message)


def own_taints(node: Obj, names: Names) -> list[str]:
    """The keys of the NoExecute taints of this controller that a node has."""
    ours = (names.taint_unreachable, names.taint_not_ready)
    return [key for key in ours if has_taint(node, key, NO_EXECUTE)]


def mark_node_as_reachable(node: Obj, names: Names) -> Steps[None]:
    """Remove both NoExecute taints and take the node out of its queue."""
    for key in own_taints(node, names):
        if not (yield Swap(node, (), (key,))).done:
            return
    yield Unqueue(node)


def monitor_node(health: Health, node: Obj, lease: Item | None, seen: Seen) -> Steps[None]:
    """Update the health of one node, its taints and its pods: a turn of monitorNodeHealth."""
    name, unmarked = health.name, seen.unmarked
    if health.standing is not Phase.NEW:
        health.standing = Phase.DUE
    outcome = yield from _try_update_node_health(health, node, lease, seen)
    if outcome is None:
        yield Count(health, None)
        return
    live, observed = outcome
    ready = condition_of(live, "Ready")
    status = "" if ready is None else ready["status"]
    yield Count(health, live, status == "True")
    if ready is None:
        return
    yield Attribute(health, status)
    yield from _process_taint_base_eviction(live, observed, seen.names)
    if status != "True" and observed == "True":
        yield node_event(node_ref(live), "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        unmarked[name] = None
    if name in unmarked and (status != "True" or observed != "True"):
        if not (yield MarkPods(name)).done:
            return
    unmarked.pop(name, None)
    health.ref = node_ref(node)
    taints = own_taints(node, seen.names)
    tainted = taints == [seen.names.taint_unreachable]
    if observed == status == "True" and not taints:
        health.standing = Healthy(node)
    elif live is node and observed == "Unknown" and tainted and health.verdict:
        if health.counted is Counted.NOT_READY:
            health.standing = Settled(node, lease)


def _try_update_node_health(
    health: Health, node: Obj, lease: Item | None, seen: Seen
) -> Steps[tuple[Obj, str] | None]:
    """Update a node's health and write Unknown conditions if the node is silent.

    Returns (node after the write, Ready status before it), or None if the writes failed, so that
    the rest of the pass skips the node.
    """
    failed_us, last, renewed = -1, False, renew_time(lease)
    revision = "" if lease is None else str(lease.rev)
    now_us, wall_us = seen.now_us, seen.wall_us
    while True:
        ready = condition_of(node, "Ready")
        created_us = now_us
        if ready is None:
            created_us -= wall_us - parse_time(node["metadata"]["creationTimestamp"])
        observe(health, ready, renewed, now_us, created_us)
        observed = "Unknown" if ready is None else ready["status"]
        silent_us = now_us - health.probe_us
        if silent_us <= (seen.startup_grace_us if ready is None else seen.grace_us):
            return node, observed
        silent = silent_status(node, format_time(wall_us), seen.names.node_agent.capitalize())
        changed = condition_of(silent, "Ready")
        if changed is ready:  # the status was Unknown before
            return silent, observed
        if (yield WriteSilence(health, silent, silent_us, revision)).reply.ok:
            health.ready, health.renewed = changed, renewed
            return silent, observed
        again = yield Get("nodes", "", health.name)
        if not again.reply.ok or last:
            return None
        node, now_us = again.reply.obj, again.now_us
        failed_us = now_us if failed_us < 0 else failed_us
        at_us, last = next_health_try(failed_us, now_us)
        _, _, now_us, wall_us = yield Sleep(at_us - now_us)


def _process_taint_base_eviction(node: Obj, observed: str, names: Names) -> Steps[None]:
    """Queue, swap or remove the NoExecute taint by the Ready status before this pass's write."""
    taint = taint_for(observed, names)
    if taint is None:
        if observed == "True":
            yield from mark_node_as_reachable(node, names)
        return
    opposite = opposite_taint(taint, names)
    if has_taint(node, opposite, NO_EXECUTE):
        yield Swap(node, (taint,), (opposite,))
    else:
        yield Queue(node, again=not has_taint(node, taint, NO_EXECUTE))
