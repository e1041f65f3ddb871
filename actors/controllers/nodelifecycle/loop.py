"""Node lifecycle controller: marks silent nodes and their pods as not ready, and taints nodes.

Turns leases and node status into Ready=Unknown conditions, Ready=False conditions of pods,
NoSchedule taints (at once, by node event) and NoExecute taints (queued per zone at a rate that
depends on the zone's state: `zones`). The taint manager turns NoExecute taints into
evictions.

A pass examines every node in upstream. Here a pass over healthy nodes reads only their new leases:
each healthy node has a deadline, and everything else that could change its state (an update of the
Node object, a forgotten lease) puts the node on the list of those to examine.

Holds: one pass runs at a time and sends its writes one after the other, on a client of 20 requests
       a second; the next pass starts one period after the end of this one, so passes drift, as
       upstream.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/node_lifecycle_controller.go.
Differs  a pod is queued for marking only if its node is known not to be ready, and a node for
         tainting or labelling only if there is something to write (upstream's workers find that
         out); the health of a node is forgotten when its object is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import assert_never

from actors.controllers.nodelifecycle import examine
from actors.controllers.nodelifecycle.decide import (
    NO_EXECUTE,
    Health,
    Healthy,
    PassCost,
    Phase,
    Settled,
    Turns,
    keeps_standing,
    last_verdict,
    only_reported,
    report,
    same,
)
from actors.controllers.nodelifecycle.renewals import NodeRenewal, Renewals
from actors.controllers.nodelifecycle.tainting import Zones
from actors.controllers.nodelifecycle.writes import NodeTaints, PodMarks, TaintWriter
from actors.controllers.shared.shell import NODE_INDEX, Env, index_by_node, run_workers
from actors.controllers.shared.steps import Event, Get, Sleep, carry_out
from actors.controllers.taint_manager.loop import TaintManager
from sim.api.objects import condition_of
from sim.api.types import Obj, Reply
from sim.client import Heartbeats
from sim.dataclass import dataclass
from sim.kernel.causes import caused_by

CLIENT = "node-controller"
COMPONENT = "node-controller"
NODE_WORKERS = 8  # scheduler.UpdateWorkerSize
POD_WORKERS = 4  # podUpdateWorkerSize
NO_REPLY = Reply(code=200)  # of an action that is no request


async def start(env: Env) -> None:
    """Run the node lifecycle controller until its process ends."""
    await NodeLifecycle(env, PassCost()).run()


class Agenda:
    """What has happened to nodes since the last pass, and is handled by the next one.

    names: the nodes to examine
    list_causes: node name -> trace record of the state in which the node was listed, until it is
        examined
    membership_causes: node name -> trace record of its add or delete after the first list
    members_changed: True if a node was added or deleted
    """

    __slots__ = ("list_causes", "members_changed", "membership_causes", "names")

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.list_causes: dict[str, int] = {}
        self.membership_causes: dict[str, int] = {}
        self.members_changed = True

    def take_names(self) -> dict[str, None]:
        """The nodes to examine, which a pass examines now."""
        names, self.names = self.names, {}
        return names


@dataclass(slots=True)
class Pass:
    """A pass over the nodes.

    nodes: as at its start
    turns: those that are over before each node is examined in full
    examined: nodes that were examined in full or have reported, by name
    later: renewals that arrived during the pass, before the turns of their nodes
    reordered: True if a renewal arrived during the pass
    """

    nodes: Mapping[str, Obj]
    turns: Turns
    examined: dict[str, Health] = field(default_factory=dict)
    later: list[NodeRenewal] = field(default_factory=list)
    reordered: bool = False


class NodeLifecycle:
    """Shell of the controller: health of all nodes, handlers, workers and passes."""

    def __init__(self, env: Env, cost: PassCost) -> None:
        self._env = env
        self._ctx = env.ctx
        self._options = env.options
        self._cost = cost
        self._client = env.client(CLIENT)
        self._recorder = env.recorder(COMPONENT, self._client)
        self._order = self._ctx.stream("node-order")
        self._writer = TaintWriter(self._ctx, self._client, self._ctx.stream("taint-backoff"))
        self._nodes = env.informers["nodes"]
        self._node_taints = NodeTaints(env, self._client, self._writer)
        self._pods = env.informers["pods"]
        self._leases = env.informers["leases"]
        index_by_node(self._pods)
        self._taint_manager = TaintManager(env, self._client, self._pods_of)
        self._pod_marks = PodMarks(env, self._client, self._recorder)

        self._health: dict[str, Health] = {}
        self._renewals = Renewals(self._leases)
        self._order_of_passes: list[Health] = []
        self._agenda = Agenda()
        self._zones = Zones(env, self._nodes, self._writer, self._health)
        self._owed_us = 0  # duration of work in the running pass that it has not slept for yet

    async def run(self) -> None:
        """Start the handlers, the workers and the passes."""
        self._nodes.on(
            self._node_added,
            self._node_updated,
            self._node_deleted,
            beat=self._node_heartbeat,
            heartbeats=Heartbeats.ON_READ,
        )
        self._pods.on(add=self._pod_added, update=self._pod_updated, delete=self._pod_deleted)
        await self._env.informers.start_and_sync()
        run_workers(self._env, self._node_taints.queue, self._node_taints.sync, NODE_WORKERS)
        run_workers(self._env, self._pod_marks.queue, self._process_pod, POD_WORKERS)
        self._ctx.spawn(self._zones.taint_forever, name="no-execute")
        self._ctx.spawn(self._monitor_forever, name="node-monitor")

    # --- informers --------------------------------------------------------------------------------

    def _pods_of(self, node: str) -> list[Obj]:
        return self._pods.by_index(NODE_INDEX, node)

    def _node_added(self, node: Obj) -> None:
        self._agenda.members_changed = True
        name = node["metadata"]["name"]
        self._agenda.names[name], self._agenda.list_causes[name] = None, self._ctx.kernel.cause
        if self._nodes.synced:
            self._agenda.membership_causes[name] = self._ctx.kernel.cause
        self._taint_manager.node_changed(None, node)
        self._node_taints.check(node)

    def _node_updated(self, old: Obj, new: Obj) -> None:
        health = self._health.get(new["metadata"]["name"])
        if health is not None and _ready(old) != _ready(new):
            health.verdict = self._ctx.kernel.cause
        self._agenda.names[new["metadata"]["name"]] = None
        self._taint_manager.node_changed(old, new)
        self._node_taints.check(new)

    def _node_heartbeat(self, old: Obj, node: Obj) -> None:
        """Handle an update of heartbeat times only, which may retry a failed write of taints."""
        name = node["metadata"]["name"]
        self._agenda.names[name] = None
        health = self._health.get(name)
        if health is not None and type(healthy := health.standing) is Healthy:
            if same(old, healthy.node) or same(old, healthy.reported):
                healthy.reported = node
        if name in self._node_taints.wrong:
            self._node_taints.check(node)

    def _node_deleted(self, node: Obj) -> None:
        self._agenda.members_changed = True
        self._agenda.membership_causes[node["metadata"]["name"]] = self._ctx.kernel.cause
        self._taint_manager.node_changed(node, None)
        self._node_taints.forget(node["metadata"]["name"])
        self._pod_marks.owed.pop(node["metadata"]["name"], None)

    def _pod_added(self, pod: Obj) -> None:
        self._taint_manager.pod_changed(None, pod)
        self._pod_bound(pod)

    def _pod_updated(self, old: Obj, new: Obj) -> None:
        if old["spec"] is new["spec"]:
            return
        self._taint_manager.pod_changed(old, new)
        if old["spec"].get("nodeName") != new["spec"].get("nodeName"):
            self._pod_bound(new)

    def _pod_deleted(self, pod: Obj) -> None:
        self._taint_manager.pod_changed(pod, None)

    def _pod_bound(self, pod: Obj) -> None:
        health = self._health.get(pod["spec"].get("nodeName", ""))
        if health is not None and health.ready is not None and health.ready["status"] != "True":
            self._pod_marks.queue.add(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")

    # --- workers ----------------------------------------------------------------------------------

    async def _process_pod(self, key: str) -> str | None:
        """Mark a pod that was bound to a node which is not ready."""
        pod = self._pods.get(key)
        if pod is None:
            return None
        name = pod["spec"].get("nodeName", "")
        health = self._health.get(name)
        if health is None or health.ready is None:
            return None
        if self._nodes.get(name) is None:
            return f"node {name} not found"
        if health.ready["status"] != "True" and not await self._pod_marks.mark([pod]):
            return "pod status not written"
        return None

    # --- the monitor pass -------------------------------------------------------------------------

    async def _monitor_forever(self) -> None:
        while True:
            await self._monitor_node_health()
            await self._ctx.sleep_us(self._options.node_monitor_period_us)

    async def _sleep_owed(self) -> None:
        """Sleep for the duration of the work since the last request."""
        owed, self._owed_us = self._owed_us, 0
        if owed:
            await self._ctx.sleep_us(owed)

    async def _monitor_node_health(self) -> None:
        """Examine every node in its turn, skipping those for which nothing can have changed."""
        self._owed_us += self._cost.base_us
        if self._agenda.members_changed:
            await self._classify_nodes()
        ordered, cost_us = self._order_of_passes, self._cost.node_us
        count = len(ordered)
        # Upstream ranges over a map: here, a fixed arbitrary order from a random start.
        first = self._order.randrange(count) if count else 0
        nodes = self._nodes.objects.copy()  # as at the start of the pass; leases are read live
        cause, start_us = self._ctx.kernel.cause, self._ctx.now_us() + self._owed_us
        self._leases.pull()
        renewals = self._renewals.new()
        present = Pass(nodes, Turns(first, count, start_us, cost_us, count))
        due, reporters = self._nodes_to_examine(present)
        present.examined.update((health.name, health) for health in reporters)
        await self._examine_due(present, due)
        turns = present.turns
        if count:
            self._renewals.observe_all(renewals, turns, present.examined)
        for holder, renewed in present.later:
            self._renewals.observe(holder, renewed, turns, present.examined)
        if present.reordered:
            self._renewals.forget_latest()
        self._apply_reports(reporters, nodes, turns)
        for turn in range(turns.done, count):
            health = ordered[(first + turn) % count]
            self._owed_us += cost_us
            await self._examine(health, nodes.get(health.name))
            self._ctx.kernel.follow(cause)
        await self._sleep_owed()
        await self._handle_disruption(nodes)

    def _nodes_to_examine(self, present: Pass) -> tuple[list[tuple[int, Health]], list[Health]]:
        """(turn, node) of nodes that are not healthy, have changed or may be overdue.

        A node is overdue if its grace period ends by the last turn of the pass. If all nodes to
        examine are healthy and have only reported, they are returned in the second list, to be
        handled as a batch.
        """
        turns, nodes, due = present.turns, present.nodes, dict[int, Health]()
        for name in self._agenda.take_names():
            if (health := self._health.get(name)) is not None:
                due[turns.of(health.index)] = health
        reporters = [*due.values()]
        last_us = turns.start_us + turns.cost_us * turns.count
        for health in self._renewals.take_overdue(last_us - self._options.node_monitor_grace_period_us):
            if type(health.standing) is Healthy and self._health.get(health.name) is health:
                due[turns.of(health.index)] = health
                reporters = []
        batched = all(only_reported(health, nodes.get(health.name)) for health in reporters)
        if batched and self._renewals.knows_latest(reporters):
            return [], reporters
        return sorted(due.items()), []

    async def _examine_due(self, present: Pass, due: list[tuple[int, Health]]) -> None:
        """Examine nodes at their turns, until an examination takes time: then all later turns are
        those of full examinations.
        """
        kernel, turns = self._ctx.kernel, present.turns
        cause, owed_us = kernel.cause, self._owed_us
        for turn, health in due:
            self._owed_us = owed_us + turns.cost_us * (turn + 1)
            before = kernel.now_us, self._owed_us
            present.examined[health.name] = health
            await self._examine(health, present.nodes.get(health.name))
            kernel.follow(cause)
            if (kernel.now_us, self._owed_us) != before:
                present.turns = replace(turns, done=turn + 1)
                return
            for holder, renewed in self._renewals.each(self._renewals.new()):
                present.reordered = True
                if holder is not None and turns.of(holder.index) > turn:
                    present.later.append((holder, renewed))
                elif holder is not None:  # the turn of this node is over
                    self._agenda.names[holder.name] = None
        self._owed_us = owed_us + turns.cost_us * turns.count

    def _apply_reports(self, reporters: list[Health], nodes: Mapping[str, Obj], turns: Turns) -> None:
        """Do the work of `_examine` for nodes that have only reported, each at its turn."""
        for health in reporters:
            report(health, nodes[health.name])
        self._renewals.report(reporters, turns)
        for health in reporters:
            if not health.timed:  # the report made it forget its last lease
                self._agenda.names[health.name] = None

    async def _examine(self, health: Health, node: Obj | None) -> None:
        """Examine one node: a healthy one gets a deadline, another one is examined in the next
        pass.
        """
        lease, grace_us = self._leases.newest(health.lease_key), self._options.node_monitor_grace_period_us
        now_us = self._ctx.now_us() + self._owed_us
        if node is not None:
            self._renewals.read(health)
            if not keeps_standing(health, node, lease, now_us, grace_us):
                seen = examine.Seen(
                    self._env.names,
                    grace_us,
                    self._options.node_startup_grace_period_us,
                    self._pod_marks.owed,
                    now_us,
                    self._ctx.wall_us() + self._owed_us,
                )
                await carry_out(examine.monitor_node(health, node, lease, seen), self._do)
                self._leases.pull()
            self._renewals.set_deadline(health)
        if type(health.standing) is not Healthy or health.renewed is None:
            self._agenda.names[health.name] = None

    async def _classify_nodes(self) -> None:
        """Register new nodes and remove those that are gone."""
        self._agenda.members_changed = False
        nodes = self._nodes.objects
        added = [node for name, node in nodes.items() if name not in self._health]
        gone = [health for name, health in self._health.items() if name not in nodes]
        # A timer is no cause: a node is registered or removed because of its add or delete, or
        # without a cause if it was in the first list.
        kernel = self._ctx.kernel
        for node in added:
            name, ref = node["metadata"]["name"], examine.node_ref(node)
            with caused_by(kernel, self._agenda.membership_causes.get(name, 0)):
                text = f"Node {name} event: Registered Node {name} in Controller"
                await self._do(examine.node_event(ref, "RegisteredNode", text))
            self._health[name] = health = self._new_health(name)
            self._renewals.holders[health.lease_key] = health
            health.ref = ref
            self._agenda.names[name] = None
        for health in gone:
            del self._health[health.name], self._renewals.holders[health.lease_key]
            self._agenda.list_causes.pop(health.name, None)
            self._zones.leave_out(health)
            text = f"Node {health.name} event: Removing Node {health.name} from Controller"
            with caused_by(kernel, self._agenda.membership_causes.get(health.name, 0)):
                await self._do(examine.node_event(health.ref, "RemovingNode", text))
        self._agenda.membership_causes = {}
        if added or gone:
            self._renewals.invalidate_rows()
            self._order_of_passes = list(self._health.values())
            self._order.shuffle(self._order_of_passes)
            for index, health in enumerate(self._order_of_passes):
                health.index = index
        # In the order of the passes, as upstream ranges over the same map. In the order of names,
        # always the same node would compete with the workers that write its other taints.
        new = {node["metadata"]["name"]: node for node in added}
        for health in self._order_of_passes if new else ():
            if health.name in new:
                with caused_by(kernel, self._agenda.list_causes.get(health.name, 0)):
                    await self._mark_node_as_reachable(new[health.name])

    def _new_health(self, name: str) -> Health:
        namespace = self._env.names.lease_namespace
        return Health(name, self._client.scheme.key("leases", namespace, name))

    async def _do(self, action: examine.Action) -> examine.Answer:
        """Do what a step says; before a request, sleep for the work since the last one."""
        ctx, client, zones = self._ctx, self._client, self._zones
        reply, done = NO_REPLY, True
        match action:
            case examine.WriteSilence(health, node, silent_us, lease):
                await self._sleep_owed()
                why = {"silent_us": silent_us, "lease": lease}
                silence = ctx.silence(health.name, health.probe_us)  # the active fault, if any
                health.verdict = ctx.decided("unheard", f"nodes/{health.name}", why, silence)
                reply = await client.update("nodes", node, subresource="status")
            case examine.Count(health, None):
                zones.leave_out(health)
            case examine.Count(health, node, ready):
                assert node is not None
                zones.count(health, node, ready)
            case examine.Attribute(health, status):
                self._attribute(health, status)
            case examine.Swap(node, add, remove):
                await self._sleep_owed()
                pairs = ([(key, NO_EXECUTE) for key in keys] for keys in (add, remove))
                done = await self._writer.swap(node, *pairs)
            case examine.Queue(node, again):
                zones.queue(node, requeue=again)
            case examine.Unqueue(node):
                zones.unqueue(node)
                holder = self._health.get(node["metadata"]["name"])
                if holder is not None and type(holder.standing) is Settled:
                    holder.standing = Phase.DUE
            case examine.MarkPods(name):
                await self._sleep_owed()
                done = await self._pod_marks.mark(self._pods_of(name))
            case Event(obj, kind, reason, message):
                self._recorder.event(obj, kind, reason, message)
            case Get(resource, namespace, name):
                reply = await client.get(resource, namespace, name)
                return self._timed(reply)
            case Sleep(us):
                await ctx.sleep_us(us)
                return self._timed(reply)
            case _:
                assert_never(action)
        return examine.Answer(reply, done)

    def _timed(self, reply: Reply) -> examine.Answer:
        ctx, owed_us = self._ctx, self._owed_us
        return examine.Answer(reply, True, ctx.now_us() + owed_us, ctx.wall_us() + owed_us)

    def _attribute(self, health: Health, status: str) -> None:
        """Let what follows have the cause of the node's Ready status."""
        found = self._agenda.list_causes.pop(health.name, 0)
        if status != "True" and not health.verdict:  # found so by a new leader
            silence = self._ctx.silence(health.name, self._ctx.now_us()) if status == "Unknown" else 0
            health.verdict = silence or found
        self._ctx.kernel.follow(health.verdict or found or self._ctx.kernel.cause)

    async def _mark_node_as_reachable(self, node: Obj) -> None:
        steps: examine.Steps[None] = examine.mark_node_as_reachable(node, self._env.names)
        await carry_out(steps, self._do)

    async def _handle_disruption(self, nodes: Mapping[str, Obj]) -> None:
        """Set states and rates of the zones by the counts of this pass."""
        decision = self._zones.decide(nodes)
        if decision.absolve:  # caused by the node that fell silent last
            with caused_by(self._ctx.kernel, last_verdict(self._order_of_passes)):
                for node in nodes.values():
                    await self._mark_node_as_reachable(node)
        if decision.fresh:
            self._renewals.reset_probe_times(self._ctx.now_us())
        self._zones.settle(decision, self._order_of_passes)


def _ready(node: Obj) -> str:
    ready = condition_of(node, "Ready")
    return "" if ready is None else str(ready["status"])
