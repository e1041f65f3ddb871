"""Registration and status of one node: the two things it says about itself besides its lease.

Turns time and changes of health into the POST that registers the node and the PATCHes of its status.

Holds: the passes fall where a loop of 10 s plus up to 4 % puts them, but a pass is only run when it would write:
when something changed, when the last write is five minutes old, or when the node's own watch or lease is
in trouble, so that what the API holds is not known.

Mirrors  pkg/kubelet/kubelet_node_status.go: registerWithAPIServer, tryUpdateNodeStatus (v1.25).
Differs  a pass that would only read (GET, compare, write nothing) is not run.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from functools import lru_cache
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from actors.node.heartbeat.node_status import (
    Health,
    beat_patch,
    changed,
    fixed_status,
    is_given_up,
    listing,
    lost_labels,
    new_node,
    only_beaten,
    stale_labels,
    status_of,
    status_patch,
    without_extended,
)
from actors.node.requests import HeartbeatCaller
from sim.api.objects import is_ready
from sim.api.store import Item
from sim.api.types import Obj, Reply, Request
from sim.kernel.dice import MASK, Dice, mix
from sim.units import MS, SECOND, format_time

if TYPE_CHECKING:
    from actors.node.agent import NodeAgent


TRIES = 5  # kubelet.go: nodeStatusUpdateRetry
JITTER_PERCENT = 4  # kubelet.go: JitterUntil(syncNodeStatus, ..., 0.04, true)
REGISTER_US = 100 * MS
REGISTER_MAX_US = 7 * SECOND
# Waits are drawn together, out of so many courses that all agents share: to plan a report five minutes on is one draw.
COURSES = 1024
COURSE_WAITS = 32
NOTHING: Obj = {}
LOOK = methodcaller("look")  # of a server's short way for a node's report


@lru_cache(maxsize=2 * COURSES)
def course_us(period_us: int, number: int) -> array[int]:
    """When passes begin after one that is over at 0 (the first of the list), each a wait after the one before."""
    dice, waits = Dice(number), array("q", [0])
    for _ in range(COURSE_WAITS):
        waits.append(waits[-1] + dice.jitter_us(period_us, JITTER_PERCENT))
    return waits


class NodeLoop:
    """One agent incarnation's view of its Node.  `node`: the newest object seen, {} before."""

    __slots__ = (
        "_agent", "_aside", "_calls", "_cordoned", "_due_us", "_ended_us", "_fixed", "_held",
        "_pass_us", "_passes", "_patch", "_register_us", "_replies_us", "_reported_us", "_running", "_same", "_seed", "_soon", "_tries", "_turned_by", "_why", "node", "registered",
    )  # fmt: skip

    def __init__(self, agent: NodeAgent, client: HeartbeatCaller) -> None:
        self._agent = agent
        self._calls = client.exchanges("nodes", agent.spec.name)
        self._seed = agent.ctx.stream("status").getrandbits(64)
        self._fixed = fixed_status(agent.machine, agent.options, agent.host_ip)
        self.node: Obj = {}
        # The last status of which a pass would change no more than the heartbeat times, and the health of that time.
        self._same: tuple[Obj, Health] | None = None
        self.registered = False
        self._cordoned = False  # as events told last
        self._turned_by = 0  # the record by which the watch showed it otherwise
        self._register_us = REGISTER_US
        self._reported_us = -1
        self._pass_us = agent.ctx.kernel.now_us  # the last one that was run, or at which they began anew
        self._passes = 0  # so many were run
        self._due_us = 0  # when the next one is run (0: none is planned)
        self._ended_us = -1  # when the last one was over
        self._running = False
        self._soon = False  # another pass follows at once
        self._aside = False  # this one is none of the loop's
        self._replies_us = 0  # when the reply comes to a report that nobody waits for (0: there is none)
        self._tries = 0
        self._held: Item | None = None  # what the report on its way is about
        self._patch: Obj = NOTHING
        self._why = 0  # the record by which its health changed, while the API does not know

    def start(self) -> None:
        if self._agent.options.register_node:
            self._agent.ctx.call_later_us(self._register_us, self._register)
        else:
            self._begin()

    # --- registration -------------------------------------------------------------------------------------

    def initial(self) -> tuple[Obj, list[str]]:
        """The node as it registers itself, and the events that its status tells."""
        agent = self._agent
        status, events = status_of(agent.machine, agent.options, self._fixed, {}, agent.health(), self.now())
        return new_node(agent.machine, agent.options, agent.names, status), events

    def _register(self, _: object) -> None:
        agent = self._agent
        node, events = self.initial()
        for reason in events:
            agent.node_event(reason)
        self._tell_cordon(not agent.options.register_schedulable)
        agent.api.create_node(node, self._registered)

    def _registered(self, reply: Reply) -> None:
        if reply.ok:
            self._take(reply.obj)
            self._reported_us = self._agent.now_us
            self._begin()
        elif reply.reason == "AlreadyExists":
            self._agent.api.get_node(self._agent.spec.name, False, self._reconcile)
        else:
            self._register_later()

    def _register_later(self) -> None:
        self._register_us = min(2 * self._register_us, REGISTER_MAX_US)
        self._agent.ctx.call_later_us(self._register_us, self._register)

    def _reconcile(self, reply: Reply) -> None:
        """An existing Node: only default labels and the attach-detach annotation are brought up to date."""
        if not reply.ok:
            self._register_later()
            return
        agent, node = self._agent, reply.obj
        self._take(node)
        metadata: Obj = {}
        held = node["metadata"].get("labels") or {}
        if labels := stale_labels(held, agent.spec, agent.options, agent.names):
            metadata["labels"] = labels
        key = agent.names.annotation_attach_detach
        wanted = "true" if agent.options.enable_controller_attach_detach else None
        if (node["metadata"].get("annotations") or {}).get(key) != wanted:
            metadata["annotations"] = {key: wanted}
        patch: Obj = {"metadata": metadata} if metadata else {}
        status = node.get("status") or {}
        absent = {k: self._fixed[k] for k in ("capacity", "allocatable") if k not in status}
        if amounts := absent | without_extended(status, self._fixed):
            patch["status"] = amounts
        if patch:
            agent.api.patch_node_status(agent.spec.name, patch, self._reconciled)
        else:
            self._begin()

    def _reconciled(self, reply: Reply) -> None:
        if reply.ok:
            self._take(reply.obj)
            self._begin()
        else:
            self._register_later()

    def _begin(self) -> None:
        """Registered: the first pass follows at once (the same call of syncNodeStatus)."""
        self.registered = True
        self._agent.node_registered()
        self._run_pass(None)

    # --- passes -------------------------------------------------------------------------------------------

    def observed(self, node: Obj) -> None:
        """The node's own watch brought a new state."""
        if node is self.node:
            return
        known = self.node.get("status")
        if _is_cordoned(node) != _is_cordoned(self.node):
            self._turned_by = self._agent.ctx.kernel.cause
        self._take(node)
        if self.registered and node.get("status") is not known and self._differs():
            self.changed()

    def lost(self) -> None:
        """The node is deleted.  Passes find none from now on; only an agent that starts registers it again."""
        if self.node:
            self.node, self._same = NOTHING, None
            self.ask_again()

    def _take(self, node: Obj) -> None:
        held = self.node
        self.node = node
        if (
            held
            and held["metadata"].get("labels") is not node["metadata"].get("labels")
            and self._lost_labels()
        ):
            self.ask_again()
        before, now = held.get("spec") or {}, node.get("spec") or {}
        if held and before is not now and before != now:
            if _is_cordoned(node) != self._cordoned:
                self.ask_again()
            if before.get("podCIDRs") != now.get("podCIDRs"):
                self.fast()

    def _tell_cordon(self, cordoned: bool, item: Item | None = None) -> None:
        """Passes tell of it, and the first one of a new incarnation does again: because of what was done to the node, not of
        what a pass was planned for.  item: that was read"""
        if cordoned != self._cordoned:
            self._cordoned = cordoned
            kernel = self._agent.ctx.kernel
            cause = kernel.cause
            kernel.cause = self._turned_by or (item.cause if item is not None else 0) or cause
            self._agent.node_event("NodeNotSchedulable" if cordoned else "NodeSchedulable")
            kernel.cause, self._turned_by = cause, 0

    def fast(self) -> None:
        """Quirk: the first pod CIDR leads to a pass outside the loop's rhythm, right after one that is under way."""
        if not self.registered:
            return
        if self._is_running():
            self._soon = True
            self._calls.plan()
        else:
            self._aside = True
            self._run_pass(None)

    def _differs(self) -> bool:
        """Whether a pass would change more than the heartbeat times of the status that the API holds."""
        agent, same = self._agent, self._same
        old, health = self.node.get("status") or {}, agent.health()
        if same is not None and (same[1] is health or same[1] == health):
            if same[0] is old:
                return False
            if only_beaten(same[0], old):
                self._same = (old, health)
                return False
        status, _ = status_of(agent.machine, agent.options, self._fixed, old, health, self.now())
        differs = changed(old, status)
        self._same = None if differs else (old, health)
        if not differs:
            self._why = 0
        return differs

    def list_images(self) -> None:
        """The images that the status shows from now on."""
        self._fixed = {**self._fixed, **listing(self._agent.machine, self._agent.options)}
        self.changed()

    def changed(self) -> None:
        """Something that the status shows may have changed: let the next pass run."""
        self._same = None
        self.ask_again()

    def health_changed(self) -> None:
        """So may what it says of its health, however long the API cannot be told: because of what runs now."""
        self._why = self._agent.ctx.kernel.cause
        self.changed()

    def ask_again(self) -> None:
        """What the API holds may not be known any more: let the next pass run."""
        if not self.registered:
            return
        if self._is_running():
            self._calls.plan()  # what comes of it shows when it is over
        else:
            self._wake_at(self._next_pass_us(max(self._agent.now_us, self._ended_us + 1)))

    def resumed(self, since_us: int) -> None:
        """The process stood still since then: a pass that fell due meanwhile comes now, and the next a period later."""
        now_us = self._agent.now_us
        if self.registered and not self._is_running() and self._next_pass_us(since_us) < now_us:
            self._pass_us = now_us
            self.ask_again()

    def _next_pass_us(self, from_us: int) -> int:
        """The first pass at or after an instant, if none is run before.  Passes that nobody needs are drawn, not run."""
        # Courses after one another are of numbers of their own: none is that of another pass.
        pass_us, number = self._pass_us, self._passes << 20
        period_us = self._agent.options.node_status_update_frequency_us
        while True:
            course = course_us(period_us, mix(self._seed + number & MASK) % COURSES)
            if pass_us + course[-1] >= from_us:
                return pass_us + course[bisect_left(course, from_us - pass_us)]
            pass_us, number = pass_us + course[-1], number + 1

    def _report_pass_us(self, reported_us: int) -> int:
        """The pass at which an unchanged status is due, after the one that is over."""
        return self._next_pass_us(max(reported_us + self._report_us, self._pass_us + 1))

    def _wake_at(self, at_us: int) -> None:
        if 0 < self._due_us <= at_us:
            return
        self._due_us = at_us
        ctx = self._agent.ctx
        now_us = ctx.kernel.now_us
        ctx.kernel.call_at(now_us + ctx.clock.real_us(at_us - now_us), self._wake, at_us)

    def _wake(self, planned_us: int) -> None:
        if planned_us == self._due_us:  # else an earlier one took its place
            self._due_us = 0
            self._agent.ctx.run(self._pass, planned_us)

    def _pass(self, planned_us: int) -> None:
        """A pass of the loop, which is run if it could write."""
        if self._is_running():
            return
        known = self._is_known()
        if known and not self._is_due(max(planned_us, self._agent.now_us)):
            self._plan()
        elif not (known and self._report()):
            self._run_pass(None)

    def _report(self) -> bool:
        """A pass that writes nothing but times, if the server has a short way for it."""
        self._running = self._calls.exchange(
            (self._look, self._request_read, self._read),
            self._compose,
            (self._beat, self._request_beat, self._written),
            self._reported,
        )
        self._tries = 0
        return self._running

    def _look(self, way: Any) -> tuple[Item, int] | None:
        """What the server shows, if that is what is known."""
        served: tuple[Item, int] | None = way.look()
        return served if served is not None and served[0].obj is self.node else None

    def _compose(self, held: Item, at_us: int) -> bool:
        agent = self._agent
        self._held = held
        self._patch = beat_patch(held.obj["status"], format_time(agent.ctx.said_us(at_us)))
        return True

    def _reported(self, item: Item, at_us: int) -> None:
        """The report was written; its reply comes then, and is not waited for."""
        self._take(item.obj)
        self._agent.tidy()
        self._replies_us = at_us
        # Had anything changed since the pass began, `ask_again` had put an end to the exchange.
        self._pass_us = at_us
        self._passes += 1
        self._wake_at(self._report_pass_us(at_us))

    def _is_running(self) -> bool:
        """Whether a pass is under way; one whose reply has come meanwhile is over."""
        if self._replies_us and self._calls.over():
            self._reported_us = self._ended_us = self._replies_us
            self._replies_us, self._running, self._patch = 0, False, NOTHING
        return self._running

    def _is_due(self, now_us: int) -> bool:
        return self._reported_us < 0 or now_us - self._reported_us >= self._report_us

    def _is_known(self) -> bool:
        """What the API holds is known: nothing but heartbeat times could be written, and nothing be told."""
        agent = self._agent
        if self._tries >= TRIES or self._cordoned != _is_cordoned(self.node):
            return False
        if self._lost_labels():
            return False
        return agent.informed() and not agent.runtime.moves() and not self._differs()

    def _told_after_all(self) -> None:
        """The reply to a report is told: the pass that was planned without it is planned again."""
        if self._replies_us:
            self._replies_us = self._due_us = 0
            self._passes -= 1

    def _run_pass(self, _: object) -> None:
        if self._running:
            return
        self._running = True
        self._tries = 0
        self._try()

    def _try(self) -> None:
        first = self._tries == 0
        if not first or not self._calls.send(LOOK, self._request_read, self._read):
            self._agent.heartbeats.get_node(self._agent.spec.name, first, self._read)

    def _request_read(self) -> Request:
        return self._agent.heartbeats.node_read(self._agent.spec.name, True)

    def _read(self, reply: Reply) -> None:
        if not reply.ok:
            self._failed()
            return
        agent = self._agent
        node = reply.obj
        self._take(node)
        self._tell_cordon(_is_cordoned(node), reply.item)
        old = node.get("status") or {}
        due, labels = self._is_due(agent.now_us), self._lost_labels()
        if not labels and not self._differs():
            if not due:
                self._end()
                return
            self._held, self._patch = reply.item, beat_patch(old, self.now())
            if not self._calls.send(self._beat, self._request_beat, self._written):
                self._write(self._patch)
            return
        status, events = status_of(agent.machine, agent.options, self._fixed, old, agent.health(), self.now())
        kernel = agent.ctx.kernel
        cause = kernel.cause
        if self._why and not is_ready({"status": status}):
            kernel.cause = self._why
        elif is_given_up(old):
            # What it says now it can say because something has ended, or else because it was given up.
            given_up = reply.item.cause if reply.item is not None else 0
            kernel.cause = agent.ctx.relief(self._reported_us) or given_up or cause
        elif self._why:
            kernel.cause = self._why
        for reason in events:
            agent.node_event(reason)
        if due or labels or changed(old, status):
            self._write(status_patch(old, status), labels)
        else:
            self._end()
        kernel.cause = cause

    def _beat(self, way: Any) -> tuple[Item, int] | None:
        """Nothing but times: by the server's short way."""
        held, self._held, same = self._held, None, self._same
        served: tuple[Item, int] | None = None if held is None else way.beat(held, self._patch["conditions"])
        if held is not None and served is not None and same is not None and same[0] is held.obj["status"]:
            self._same = served[0].obj["status"], same[1]
        return served

    def _request_beat(self) -> Request:
        return self._agent.heartbeats.node_patch(self._agent.spec.name, {"status": self._patch})

    def _write(self, patch: Obj, labels: Obj = NOTHING) -> None:
        agent = self._agent
        metadata = {"metadata": {"labels": labels}} if labels else NOTHING
        agent.heartbeats.patch_node_status(agent.spec.name, {**metadata, "status": patch}, self._written)

    def _lost_labels(self) -> dict[str, str]:
        return lost_labels(self.node, self._agent.spec, self._agent.names) if self.node else {}

    @property
    def _report_us(self) -> int:
        return self._agent.options.node_status_report_frequency_us

    def _written(self, reply: Reply) -> None:
        self._told_after_all()
        self._patch = NOTHING
        if reply.ok:
            # The watch may have brought a later one meanwhile.
            if _revision(reply.obj) > _revision(self.node):
                self._take(reply.obj)
            self._reported_us = self._agent.now_us
            self._end()
        else:
            self._failed()

    def _failed(self) -> None:
        self._told_after_all()
        self._tries += 1
        if self._tries < TRIES:
            self._try()
        else:
            self._end()

    def _end(self) -> None:
        """The pass is over; the next one that can write is planned.  Sliding: its period starts now."""
        self._running = False
        self._agent.tidy()
        self._plan()
        if self._soon:
            self._soon, self._aside = False, True
            self._run_pass(None)

    def _plan(self) -> None:
        self._ended_us = self._agent.now_us
        if self._aside:
            self._aside = False
        else:
            self._pass_us = self._ended_us
            self._passes += 1
        if self._is_known():
            self._wake_at(self._report_pass_us(self._reported_us))
        else:
            self._wake_at(self._next_pass_us(self._ended_us + 1))

    def now(self) -> str:
        return format_time(self._agent.ctx.wall_us())


def _revision(node: Obj) -> int:
    return int(node["metadata"]["resourceVersion"])


def _is_cordoned(node: Obj) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))
