"""Registration and status of one node: what it reports about itself besides its lease.

Turns time and changes of health into the request that registers the node and the patches of its
status.

Holds: the passes fall where a loop of 10 s plus up to 4 % puts them, but a pass is only run when it
would write: when something changed, when the last write is five minutes old, or when the node's own
watch or lease has failed, so that the agent does not know the stored state.

Mirrors  pkg/kubelet/kubelet_node_status.go: registerWithAPIServer, tryUpdateNodeStatus (v1.25).
Differs  a pass that would only read (read, compare, write nothing) is not run.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from itertools import accumulate
from operator import methodcaller
from typing import Any, NamedTuple

from actors.node.heartbeat.node_status import (
    Health,
    changed,
    fixed_status,
    heartbeat_patch,
    image_list,
    is_unknown,
    missing_labels,
    new_node,
    only_heartbeats_differ,
    stale_labels,
    status_of,
    status_patch,
    without_extended,
)
from actors.node.heartbeat.ports import HeartbeatAgent
from sim.api.objects import is_ready
from sim.api.store import Item
from sim.api.types import Obj, Reply, Request
from sim.client.client import Client
from sim.kernel.causes import caused_by
from sim.kernel.draws.dice import MASK, Dice, mix
from sim.kernel.network import Purpose
from sim.klog import Ref
from sim.units import MS, SECOND, format_time

ATTEMPTS_MAX = 5  # kubelet.go: nodeStatusUpdateRetry
JITTER_PERCENT = 4  # kubelet.go: JitterUntil(syncNodeStatus, ..., 0.04, true)
REGISTER_US = 100 * MS
REGISTER_MAX_US = 7 * SECOND
# The waits between passes come from schedules that all agents share, so that planning a report five
# minutes ahead is one random draw.
SCHEDULE_COUNT = 1024
SCHEDULE_LENGTH = 32
NOTHING: Obj = {}
LOOK = methodcaller("look")  # of a server's fast path for a node's report


@lru_cache(maxsize=2 * SCHEDULE_COUNT)
def pass_schedule_us(period_us: int, number: int) -> array[int]:
    """When passes begin after one that is over at 0, which is the first entry."""
    waits = Dice(number).jitters_us(period_us, JITTER_PERCENT, SCHEDULE_LENGTH)
    return array("q", accumulate(waits, initial=0))


class PassKind(Enum):
    """A pass of the loop's rhythm, one outside of it, or none."""

    NONE = "none"
    REGULAR = "regular"
    EXTRA = "extra"


class Cordon(NamedTuple):
    """If a node is cordoned, and the trace record of a change that no event has shown (0: none)."""

    is_on: bool
    record: int


class Draft(NamedTuple):
    """The patch of a report, and the Node that it is about; None if the patch is sent as a request."""

    patch: Obj
    node: Item | None


NO_DRAFT = Draft(NOTHING, None)


class NodeLoop:
    """One agent incarnation's view of its Node.

    node: the newest object; empty before the first
    registered: True once the API holds the Node object
    _compared: the last status in which a pass would change only heartbeat times, with the health at
        that time
    _cordon: if it is cordoned, as the last event showed it, and the record by which the watch
        showed another state (0: none)
    _health_record: the record by which the health changed, while the API does not show it
    _reported_us: when the status was last written; -1 before
    _pass_us: the last pass that was run, or the start of the rhythm
    _passes: how many passes were run
    _due_us: when the next pass is run; 0 without one
    _ended_us: when the last pass was over
    _pass_requested: True if another pass follows at once
    _pass_kind: the kind of the present pass
    _reply_due_us: when the reply to a report arrives for which nothing waits; 0 without one
    _draft: the patch of the report under way, and the Node that it is about
    """

    __slots__ = (
        "_agent", "_attempts", "_calls", "_compared", "_cordon", "_draft", "_due_us", "_ended_us",
        "_fixed", "_health_record", "_pass_kind", "_pass_requested", "_pass_us", "_passes",
        "_register_us", "_reply_due_us", "_reported_us", "_seed", "node",
        "registered",
    )  # fmt: skip

    def __init__(self, agent: HeartbeatAgent, client: Client) -> None:
        self._agent = agent
        self._calls = client.exchanges("nodes", agent.spec.name, purpose=Purpose.NODE_REPORT)
        self._seed = agent.ctx.stream("status").getrandbits(64)
        self._fixed = fixed_status(agent.machine, agent.options, agent.host_ips)
        self.node: Obj = {}
        self._compared: tuple[Obj, Health] | None = None
        self.registered = False
        self._cordon = Cordon(False, 0)
        self._register_us = REGISTER_US
        self._reported_us = -1
        self._pass_us: int = agent.ctx.kernel.now_us
        self._passes = 0
        self._due_us = 0
        self._ended_us = -1
        self._pass_kind = PassKind.NONE
        self._pass_requested = False
        self._reply_due_us = 0
        self._attempts = 0
        self._draft = NO_DRAFT
        self._health_record = 0

    def start(self) -> None:
        """Register the node, or begin the passes at once if the options say so."""
        if self._agent.options.register_node:
            self._agent.ctx.call_later_us(self._register_us, self._register)
        else:
            self._begin_passes()

    # --- registration -----------------------------------------------------------------------------

    def initial(self) -> tuple[Obj, list[str]]:
        """The node as it registers itself, and the reasons of the events of its status."""
        agent = self._agent
        status, events = status_of(agent.machine, agent.options, self._fixed, {}, agent.health(), self.now())
        return new_node(agent.machine, agent.options, agent.names, status), events

    def _register(self, _: object) -> None:
        agent = self._agent
        node, events = self.initial()
        for reason in events:
            agent.node_event(reason)
        self._report_cordon(not agent.options.register_schedulable)
        self._log("70", "Attempting to register node")
        agent.api.create_node(node, self._registered)

    def _log(self, line: str, text: str, problem: str = "") -> None:
        """Log about the registration."""
        agent, log = self._agent, self._agent.log
        if log is not None:
            name = agent.names.node_agent
            where = f"{name}/{name}_node_status.go:{line}"
            if problem:
                log.error(where, text, problem, node=Ref(agent.spec.name))
            else:
                log.info(0, where, text, node=Ref(agent.spec.name))

    def _registered(self, reply: Reply) -> None:
        if reply.ok:
            self._log("73", "Successfully registered node")
            self._set_node(reply.obj)
            self._reported_us = self._agent.now_us
            self._begin_passes()
        elif reply.reason == "AlreadyExists":
            self._log("108", "Node was previously registered")
            self._agent.api.get_node(self._agent.spec.name, False, self._reconcile)
        else:
            self._log("92", "Unable to register node with API server", reply.message or reply.lost)
            self._register_later()

    def _register_later(self) -> None:
        self._register_us = min(2 * self._register_us, REGISTER_MAX_US)
        self._agent.ctx.call_later_us(self._register_us, self._register)

    def _reconcile(self, reply: Reply) -> None:
        """Update an existing Node: only default labels, the attach-detach annotation and resources."""
        if not reply.ok:
            self._register_later()
            return
        agent, node = self._agent, reply.obj
        self._set_node(node)
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
            self._begin_passes()

    def _reconciled(self, reply: Reply) -> None:
        if reply.ok:
            self._set_node(reply.obj)
            self._begin_passes()
        else:
            self._register_later()

    def _begin_passes(self) -> None:
        """The node is registered: the first pass follows at once (the same call of syncNodeStatus)."""
        self.registered = True
        self._agent.node_registered()
        self._run_pass(PassKind.REGULAR)

    # --- passes -----------------------------------------------------------------------------------

    def observed(self, node: Obj) -> None:
        """The node's own watch shows a new state."""
        if node is self.node:
            return
        known = self.node.get("status")
        if _is_cordoned(node) != _is_cordoned(self.node):
            self._cordon = self._cordon._replace(record=self._agent.ctx.kernel.cause)
        self._set_node(node)
        if self.registered and node.get("status") is not known and self._differs():
            self.changed()

    def lost(self) -> None:
        """The node was deleted.

        Passes find none from now on; only an agent that starts registers it again.
        """
        if self.node:
            self.node, self._compared = NOTHING, None
            self.check_again()

    def _set_node(self, node: Obj) -> None:
        held = self.node
        self.node = node
        if not held and self.registered:
            self._agent.node_registered()
        if (
            held
            and held["metadata"].get("labels") is not node["metadata"].get("labels")
            and self._missing_labels()
        ):
            self.check_again()
        before, now = held.get("spec") or {}, node.get("spec") or {}
        if held and before is not now and before != now:
            if _is_cordoned(node) != self._cordon.is_on:
                self.check_again()
            if before.get("podCIDRs") != now.get("podCIDRs"):
                self.run_extra_pass()

    def _report_cordon(self, cordoned: bool, item: Item | None = None) -> None:
        """Record an event if the cordon has changed, also in the first pass of a new incarnation.

        The event is caused by the write of the node, not by what the pass was planned for.

        item: the Node as read
        """
        if cordoned != self._cordon.is_on:
            record, self._cordon = self._cordon.record, Cordon(cordoned, 0)
            written = item.cause if item is not None else 0
            with caused_by(self._agent.ctx.kernel, record or written):
                self._agent.node_event("NodeNotSchedulable" if cordoned else "NodeSchedulable")

    def run_extra_pass(self) -> None:
        """Run a pass outside of the loop's rhythm, right after one that is under way.

        Quirk: upstream does so for the first pod CIDR.
        """
        if not self.registered:
            return
        if self._is_running():
            self._pass_requested = True
            self._calls.plan()
        else:
            self._run_pass(PassKind.EXTRA)

    def _differs(self) -> bool:
        """True if a pass would change more than heartbeat times of the status that the API holds."""
        agent, compared = self._agent, self._compared
        old, health = self.node.get("status") or {}, agent.health()
        if compared is not None and (compared[1] is health or compared[1] == health):
            if compared[0] is old:
                return False
            if only_heartbeats_differ(compared[0], old):
                self._compared = (old, health)
                return False
        status, _ = status_of(agent.machine, agent.options, self._fixed, old, health, self.now())
        differs = changed(old, status)
        self._compared = None if differs else (old, health)
        if not differs:
            self._health_record = 0
        return differs

    def list_images(self) -> None:
        """Show the images that the machine holds now."""
        self._fixed = {**self._fixed, **image_list(self._agent.machine, self._agent.options)}
        self.changed()

    def list_amounts(self, capacity: Mapping[str, str], allocatable: Mapping[str, str]) -> None:
        """Show these amounts of resources besides those of the machine."""
        fixed = self._fixed
        self._fixed = {
            **fixed,
            "capacity": {**fixed["capacity"], **capacity},
            "allocatable": {**fixed["allocatable"], **allocatable},
        }
        self.changed()

    def list_volumes(self, in_use: list[str]) -> None:
        """Show these volumes as in use."""
        self._fixed = {**self._fixed, "volumesInUse": in_use}
        self.changed()

    def changed(self) -> None:
        """A part of the status may have changed: run the next pass."""
        self._compared = None
        self.check_again()

    def health_changed(self) -> None:
        """The health may have changed, because of the present cause: run the next pass."""
        self._health_record = self._agent.ctx.kernel.cause
        self.changed()

    def check_again(self) -> None:
        """The agent may no longer know the stored state: run the next pass."""
        if not self.registered:
            return
        if self._is_running():
            self._calls.plan()  # the plan is made when the pass is over
        else:
            self._wake_at(self._next_pass_us(max(self._agent.now_us, self._ended_us + 1)))

    def resumed(self, since_us: int) -> None:
        """The process was paused since `since_us`.

        A pass that fell due during the pause is run now, and the next one a period later.
        """
        now_us = self._agent.now_us
        if self.registered and not self._is_running() and self._next_pass_us(since_us) < now_us:
            self._pass_us = now_us
            self.check_again()

    def _next_pass_us(self, from_us: int) -> int:
        """The first pass at or after an instant, if none is run before.

        Passes that write nothing are drawn and not run.
        """
        # Consecutive schedules have numbers of their own, which no other pass uses.
        pass_us, number = self._pass_us, self._passes << 20
        period_us = self._agent.options.node_status_update_frequency_us
        while True:
            schedule = pass_schedule_us(period_us, mix(self._seed + number & MASK) % SCHEDULE_COUNT)
            if pass_us + schedule[-1] >= from_us:
                return pass_us + schedule[bisect_left(schedule, from_us - pass_us)]
            pass_us, number = pass_us + schedule[-1], number + 1

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
        if planned_us == self._due_us:  # else an earlier pass took its place
            self._due_us = 0
            self._agent.ctx.run(self._pass, planned_us)

    def _pass(self, planned_us: int) -> None:
        """A pass of the loop, which is run if it could write."""
        if self._is_running():
            return
        known = self._is_known()
        if known and not self._is_due(max(planned_us, self._agent.now_us)):
            self._plan()
        elif known:
            self._report()
        else:
            self._run_pass(PassKind.REGULAR)

    def _report(self) -> None:
        """Write only heartbeat times, unless the Node that the server shows differs."""
        self._pass_kind, self._attempts = PassKind.REGULAR, 0
        self._calls.read_modify_write(
            (LOOK, self._request_read, self._read),
            self._compose,
            (self._beat, self._request_beat, self._written),
            self._reported,
        )

    def _compose(self, held: Item, at_us: int) -> bool:
        """Make the patch of new heartbeat times; False if the Node is not the known one."""
        if held.obj is not self.node:
            return False
        agent = self._agent
        self._draft = Draft(heartbeat_patch(held.obj["status"], format_time(agent.ctx.said_us(at_us))), held)
        return True

    def _reported(self, item: Item, at_us: int) -> None:
        """The report was written; its reply arrives at `at_us`, and nothing waits for it."""
        self._set_node(item.obj)
        self._agent.tidy()
        self._reply_due_us = at_us
        # If anything had changed since the pass began, `check_again` would have ended the exchange.
        self._pass_us = at_us
        self._passes += 1
        self._wake_at(self._report_pass_us(at_us))

    def _is_running(self) -> bool:
        """True if a pass is under way; a reply that has arrived in between ends it."""
        if self._reply_due_us and self._calls.over():
            self._reported_us = self._ended_us = self._reply_due_us
            self._reply_due_us, self._pass_kind, self._draft = 0, PassKind.NONE, NO_DRAFT
        return self._pass_kind is not PassKind.NONE

    def _is_due(self, now_us: int) -> bool:
        return self._reported_us < 0 or now_us - self._reported_us >= self._report_us

    def _is_known(self) -> bool:
        """True if the agent knows the stored state, and could write only heartbeat times."""
        agent = self._agent
        if self._attempts >= ATTEMPTS_MAX or self._cordon.is_on != _is_cordoned(self.node):
            return False
        if self._missing_labels():
            return False
        return agent.knows_node() and not agent.runtime.texts_change() and not self._differs()

    def _undo_plan(self) -> None:
        """A reply arrives although the next pass was planned without it: it will be planned again."""
        if self._reply_due_us:
            self._reply_due_us = self._due_us = 0
            self._passes -= 1

    def _run_pass(self, kind: PassKind) -> None:
        if self._pass_kind is not PassKind.NONE:
            return
        self._pass_kind = kind
        self._attempts = 0
        self._try()

    def _try(self) -> None:
        if self._attempts == 0:
            self._calls.call(LOOK, self._request_read, self._read)
        else:
            self._agent.heartbeats.get_node(self._agent.spec.name, False, self._read)

    def _request_read(self) -> Request:
        return self._agent.heartbeats.node_read(self._agent.spec.name, True)

    def _read(self, reply: Reply) -> None:
        if not reply.ok:
            self._failed()
            return
        agent = self._agent
        node = reply.obj
        self._set_node(node)
        self._report_cordon(_is_cordoned(node), reply.item)
        old = node.get("status") or {}
        due, labels = self._is_due(agent.now_us), self._missing_labels()
        if not labels and not self._differs():
            if not due:
                self._end()
                return
            self._draft = Draft(heartbeat_patch(old, self.now()), reply.item)
            self._calls.call(self._beat, self._request_beat, self._written)
            return
        status, events = status_of(agent.machine, agent.options, self._fixed, old, agent.health(), self.now())
        cause = self._health_record
        if is_unknown(old) and not (cause and not is_ready({"status": status})):
            # The node can report again because a fault has ended, or else because it was marked
            # Unknown.
            given_up = reply.item.cause if reply.item is not None else 0
            cause = agent.ctx.relief(self._reported_us) or given_up
        with caused_by(agent.ctx.kernel, cause):
            for reason in events:
                agent.node_event(reason)
            if due or labels or changed(old, status):
                self._write(status_patch(old, status), labels)
            else:
                self._end()

    def _beat(self, way: Any) -> tuple[Item, int] | None:
        """Write only heartbeat times, by the server's fast path."""
        (patch, held), compared = self._draft, self._compared
        self._draft = Draft(patch, None)
        served: tuple[Item, int] | None = None if held is None else way.beat(held, patch["conditions"])
        if (
            held is not None
            and served is not None
            and compared is not None
            and compared[0] is held.obj["status"]
        ):
            self._compared = served[0].obj["status"], compared[1]
        return served

    def _request_beat(self) -> Request:
        return self._agent.heartbeats.node_patch(self._agent.spec.name, {"status": self._draft.patch})

    def _write(self, patch: Obj, labels: Obj = NOTHING) -> None:
        agent = self._agent
        metadata = {"metadata": {"labels": labels}} if labels else NOTHING
        agent.heartbeats.patch_node_status(agent.spec.name, {**metadata, "status": patch}, self._written)

    def _missing_labels(self) -> dict[str, str]:
        return missing_labels(self.node, self._agent.spec, self._agent.names) if self.node else {}

    @property
    def _report_us(self) -> int:
        return self._agent.options.node_status_report_frequency_us

    def _written(self, reply: Reply) -> None:
        self._undo_plan()
        self._draft = NO_DRAFT
        if reply.ok:
            # The watch may have shown a later state already.
            if _revision(reply.obj) > _revision(self.node):
                self._set_node(reply.obj)
            self._reported_us = self._agent.now_us
            self._end()
        else:
            self._failed()

    def _failed(self) -> None:
        self._undo_plan()
        self._attempts += 1
        if self._attempts < ATTEMPTS_MAX:
            self._try()
        else:
            self._end()

    def _end(self) -> None:
        """The pass is over: plan the next one that can write.  Its period starts now."""
        kind, self._pass_kind = self._pass_kind, PassKind.NONE
        self._agent.tidy()
        self._plan(kind)
        if self._pass_requested:
            self._pass_requested = False
            self._run_pass(PassKind.EXTRA)

    def _plan(self, kind: PassKind = PassKind.REGULAR) -> None:
        self._ended_us = self._agent.now_us
        if kind is not PassKind.EXTRA:
            self._pass_us = self._ended_us
            self._passes += 1
        if self._is_known():
            self._wake_at(self._report_pass_us(self._reported_us))
        else:
            self._wake_at(self._next_pass_us(self._ended_us + 1))

    def now(self) -> str:
        """The wall clock's time, as the API has it."""
        return format_time(self._agent.ctx.wall_us())


def _revision(node: Obj) -> int:
    return int(node["metadata"]["resourceVersion"])


def _is_cordoned(node: Obj) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))
