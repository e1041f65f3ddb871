"""The scheduler process: informers feed the queue and the cluster view, and cycles place pods.

Turns events of informers into changes of `Cluster` and `SchedulingQueue`, and the results of
`Attempts` into requests: Bindings, deletes of victims, status patches, events.

Holds: informers run before leadership is won, cycles only while it is held; one cycle runs at a
time, deletes its victims one after the other, and lasts until the status of a pod without a node is
written; binds overlap cycles; a pod is in the queue until it has a node in the informer's view or
is deleted; a failed bind removes the assumed pod.

Mirrors  kubernetes v1.25 cmd/kube-scheduler/app/server.go, pkg/scheduler/{scheduler,schedule_one,
         eventhandlers}.go.
Differs  a cycle takes a fixed time in addition to its waits; if a list shows a pod with the name of
         another pod, it counts as that pod's deletion and a new pod (upstream keeps the other's
         back-off, and exits if both have nodes and not the same one: cache.go UpdatePod).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from actors.scheduler.attempt import ERROR, Attempts, Failed, Placed
from actors.scheduler.cluster import Cluster
from actors.scheduler.events import EventSeries
from actors.scheduler.match import from_label_selector
from actors.scheduler.metering import Metering
from actors.scheduler.plugins.base import ClusterEvent, SchedulerPlugin
from actors.scheduler.pods import OWNERS, PodInfo, Template, binding, is_terminating
from actors.scheduler.preempt import Budget
from actors.scheduler.queue import FLUSH_BACKOFF_US, FLUSH_LEFTOVER_US, CycleState, QueuedPod, SchedulingQueue
from actors.scheduler.status import assigned, changed, condition_patch, node_event, waits
from actors.scheduler.storage_events import STORAGE_EVENTS, watch_storage
from actors.scheduler.volumes.binding import Bindings, VolumeBinder, reserve, unreserve
from actors.scheduler.volumes.storage import Storage
from sim.api.kinds.core.pod.disruption_target import Disruption, disrupted, status_patch
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj, Reply, Request, Transport, UserInfo
from sim.client import DEFAULT_QPS, Client, ElectionOptions, EventRecorder, Heartbeats, Informers, candidate
from sim.client.pod_status import status_request
from sim.client.rest.channel import REFUSED
from sim.ident import Names
from sim.kernel import Context, Kind
from sim.options.features.gates import OF_SPREAD, OF_VOLUMES, POD_DISRUPTION, enabled
from sim.options.scheduler import SchedulerOptions
from sim.units import format_time

# Upstream's scheduler_perf places some hundred to a thousand pods a second on large clusters, which
# is about a millisecond for each pod.
CYCLE_US = 1_000
# Pauses between attempts of a status patch that no server accepts (client-go util/retry
# DefaultBackoff, without its jitter).
PATCH_PAUSES_US = (10_000, 50_000, 250_000)
Connect = Callable[[Context], Sequence[Transport]]


def user_of(names: Names) -> UserInfo:
    """Return the user that sends the scheduler's requests."""
    return UserInfo(names.user_scheduler, (names.group_authenticated,))


def scheduler_main(
    options: SchedulerOptions,
    scheme: Scheme,
    names: Names,
    connect: Connect,
    plugins: Sequence[SchedulerPlugin] = (),
    identify: Callable[[Context], str] = lambda ctx: f"{ctx.name}_{ctx.incarnation}",
    on_begin: Callable[[Informers], None] = lambda _: None,
) -> Callable[[Context], Any]:
    """Return the `main` of a scheduler actor.

    connect: returns the channels to the API servers
    plugins: added by library users; they apply after the default plugins
    identify: the identity in the lease, which no other process may have
    on_begin: takes the informers of each incarnation
    """

    async def main(ctx: Context) -> None:
        user = user_of(names)
        transports = connect(ctx)
        agent = names.component("scheduler")

        def client(use: str) -> Client:
            return Client(
                ctx,
                scheme,
                transports,
                user,
                qps=options.api_qps or DEFAULT_QPS,
                burst=options.api_burst,
                agent=f"{agent}/{use}",
            )

        main_client = client("scheduler")
        informers = Informers(ctx, main_client)
        event_client = client("events")
        recorders = {one.name: EventSeries(ctx, event_client, one.name) for one in options.profiles}
        scheduler = Scheduler(ctx, options, names, (main_client, informers, recorders), plugins)
        on_begin(informers)
        await informers.start_and_sync()
        if not options.leader_elect:
            await scheduler.lead()
            return
        lease = (options.leader_elect_resource_namespace, options.leader_elect_resource_name)
        election = ElectionOptions.of(options, options.leader_elect_resource_lock, release_on_cancel=True)
        elector = candidate(ctx, client("leader-election"), lease, identify(ctx), election)
        ctx.on_terminate(elector.stop)

        async def lead() -> None:
            elector.announce(EventRecorder(ctx, event_client, options.profiles[0].name))
            await scheduler.lead()

        await elector.run(lead)
        ctx.exit("leader election lost")

    return main


class Scheduler:
    """One scheduler: its queue, its view of the cluster, and its reactions to events."""

    def __init__(
        self,
        ctx: Context,
        options: SchedulerOptions,
        names: Names,
        clients: tuple[Client, Informers, Mapping[str, EventSeries]],
        plugins: Sequence[SchedulerPlugin] = (),
    ) -> None:
        self.ctx = ctx
        gates = [gate for gate in (*OF_SPREAD, *OF_VOLUMES) if enabled(options.feature_gates, gate)]
        self.cluster = Cluster(names, gates, whole_objects=bool(plugins))
        self._client, self._informers, self._recorders = clients
        self.storage = Storage(names, {resource: self._informers[resource] for resource in STORAGE_EVENTS})
        percentage, by_changes = options.percentage_of_nodes_to_score, ctx.kernel.fast.search
        self._profiles = {
            spec.name: Attempts(
                self.cluster, percentage, plugins, self.storage, gates, by_changes=by_changes, spec=spec
            )
            for spec in options.profiles
        }
        self._latest = next(iter(self._profiles.values()))  # the profile of the latest attempt
        self.queue = SchedulingQueue(
            self._latest.profile.events,
            options.pod_initial_backoff_us,
            options.pod_max_backoff_us,
            options.pod_max_unschedulable_us,
        )
        self._metering = Metering(ctx, self._latest.profile.spec.name, self.queue, self.cluster)
        self._sets_disruption_condition = enabled(options.feature_gates, POD_DISRUPTION)
        watched = ("pods", "poddisruptionbudgets", "nodes")  # started in this order
        self._pods, _, self._nodes = [self._informers[name] for name in watched]
        self._binders = {
            spec.name: VolumeBinder(
                ctx, self._client, self.storage, self._nodes, self._pods, options.bind_timeout_of(spec)
            )
            for spec in options.profiles
        }
        self._random = ctx.stream("scheduler").random
        self._kind: Kind = ctx.kernel.kind("schedule", "pod", "node", "message")
        # The trace record of the last change that made room on a node, by node.
        self._room_causes: dict[str, int] = {}
        self._leading = False
        self._cycle_state = CycleState.NONE
        self._deleting = ""  # key of the last victim while its delete is under way
        self._watch()

    def _watch(self) -> None:
        informers, cluster = self._informers, self.cluster
        self._pods.on(add=self._pod_added, update=self._pod_updated, delete=self._pod_deleted)
        self._nodes.on(
            self._node_added,
            self._node_updated,
            self._node_deleted,
            beat=self._node_reported,
            heartbeats=Heartbeats.IF_URGED,
        )
        for resource, (_, kind) in OWNERS.items():
            if self._client.scheme.find(*resource):
                self._watch_owner(resource[2], kind)
        watch_storage(self._informers, self._storage_changed)

        def namespace(obj: Obj) -> None:
            cluster.set_namespace(obj["metadata"]["name"], obj["metadata"].get("labels") or {})

        def service(obj: Obj) -> None:
            cluster.set_service(obj["metadata"]["namespace"], obj["metadata"]["name"], obj)

        informers["namespaces"].on(
            add=namespace,
            update=lambda _, new: namespace(new),
            delete=lambda obj: cluster.set_namespace(obj["metadata"]["name"], None),
        )
        informers["services"].on(
            add=service,
            update=lambda _, new: service(new),
            delete=lambda obj: cluster.set_service(
                obj["metadata"]["namespace"], obj["metadata"]["name"], None
            ),
        )

    def _storage_changed(self, event: ClusterEvent) -> None:
        self.queue.move(event, self.ctx.now_us())
        self._wake()

    def _watch_owner(self, resource: str, kind: str) -> None:
        cluster = self.cluster

        def updated(old: Obj, new: Obj) -> None:
            if old["spec"] is not new["spec"]:
                cluster.set_owner(kind, new)

        self._informers[resource].on(
            add=lambda obj: cluster.set_owner(kind, obj),
            update=updated,
            delete=lambda obj: cluster.set_owner(kind, obj, deleted=True),
        )

    def _event(self, pod: Obj, kind: str, why: tuple[str, str], text: str) -> None:
        """Record an event in the name of the profile of a pod."""
        self._recorders[pod["spec"]["schedulerName"]].event(pod, kind, why, text)

    # --- leading ----------------------------------------------------------------------------------

    async def lead(self) -> None:
        """Schedule pods until the lease is lost or released."""
        self._leading = self._metering.leads = True
        self.ctx.call_later_us(FLUSH_BACKOFF_US, self._flush_backoff)
        self.ctx.call_later_us(FLUSH_LEFTOVER_US, self._flush_leftover)
        self._wake()
        try:
            await self.ctx.forever()
        finally:
            self._leading = self._metering.leads = False

    def _flush_backoff(self, _: Any) -> None:
        self.queue.flush_backoff(self.ctx.now_us())
        self.ctx.call_later_us(FLUSH_BACKOFF_US, self._flush_backoff)
        self._wake()

    def _flush_leftover(self, _: Any) -> None:
        self.queue.flush_leftover(self.ctx.now_us())
        self.ctx.call_later_us(FLUSH_LEFTOVER_US, self._flush_leftover)
        self._wake()

    def _wake(self) -> None:
        """Schedule a cycle if a pod can be tried."""
        if self._leading and self._cycle_state is CycleState.NONE and len(self.queue):
            self._cycle_state = CycleState.DUE
            self.ctx.call_later_us(CYCLE_US, self._cycle)

    # --- nodes ------------------------------------------------------------------------------------

    def _set_node(self, node: Obj) -> None:
        self.cluster.set_node(node)
        self._nodes.deliver_promptly("scheduler", not self.cluster.images.settled)

    def _node_reported(self, old: Obj, _: Obj) -> None:
        """Handle a heartbeat that changed nothing else."""
        self.cluster.observe(old["metadata"]["name"])
        self._nodes.deliver_promptly("scheduler", not self.cluster.images.settled)

    def _node_added(self, node: Obj) -> None:
        self._set_node(node)
        self._node_event(node, ClusterEvent.NODE_ADD)

    def _node_updated(self, old: Obj, new: Obj) -> None:
        self._set_node(new)
        event = node_event(old, new)
        if event:
            self._node_event(new, event)

    def _node_deleted(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        self.cluster.delete_node(name)
        self._nodes.deliver_promptly("scheduler", not self.cluster.images.settled)
        self._room_causes.pop(name, None)

    def _node_event(self, node: Obj, event: ClusterEvent) -> None:
        info = self.cluster.nodes[node["metadata"]["name"]]
        known: dict[Template, bool] = {}

        def may_help(pod: PodInfo) -> bool:
            found = known.get(pod.template)
            if found is None:
                found = known[pod.template] = self._latest.profile.may_help(pod.template, info)
            return found

        self._room_causes[node["metadata"]["name"]] = self.ctx.kernel.cause
        self.queue.move(event, self.ctx.now_us(), may_help)
        self._wake()

    # --- pods -------------------------------------------------------------------------------------

    def _pod_added(self, pod: Obj) -> None:
        if assigned(pod):
            self._set_assigned(pod)
        elif waits(pod, self._profiles):
            self._set_waiting(None, pod)

    def _pod_updated(self, old: Obj, new: Obj) -> None:
        if old["metadata"].get("uid") != new["metadata"].get("uid"):
            self._pod_deleted(old)  # the watch did not show its deletion
            self._pod_added(new)
        elif assigned(new):
            self._set_assigned(new)
        elif waits(new, self._profiles):
            self._set_waiting(old, new)
        else:
            self._pod_deleted(old)

    def _pod_deleted(self, pod: Obj) -> None:
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._leave_queue(key)
        known = self.cluster.pods.get(key)
        if known is not None:
            self._room_causes[known.node_name] = self.ctx.kernel.cause
            self.cluster.remove_pod(key)
            self.queue.move(ClusterEvent.POD_DELETE, self.ctx.now_us())
            self._wake()

    def _set_assigned(self, pod: Obj) -> None:
        cluster = self.cluster
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        known = cluster.pods.get(key)
        fresh = known is None or key in cluster.assumed
        if (
            known is not None
            and not fresh
            and known.has_same_demands(pod)
            and known.terminating == is_terminating(pod)
        ):
            info = known
        else:
            info = cluster.templates.info(pod, known)
            cluster.set_pod(info)
        info.held = self._pods.item(key) or pod
        cluster.note_update(info)
        if fresh:
            self._leave_queue(key)
        event = ClusterEvent.POD_ADD if fresh else ClusterEvent.POD_UPDATE
        # The watch may show the victim's last change before the reply to its delete ends the
        # attempt.
        late = key == self._deleting
        if self.queue.assigned_pod(info, event, cluster.namespaces, self.ctx.now_us, late=late):
            self._wake()

    def _set_waiting(self, old: Obj | None, new: Obj) -> None:
        cluster, queue = self.cluster, self.queue
        key = f"{new['metadata']['namespace']}/{new['metadata']['name']}"
        queued = queue.pods.get(key)
        kept = queued is not None and _owners(queued.pod.obj) == _owners(
            new
        )  # the owner decides the spreading
        info = cluster.templates.info(new, queued.pod if queued is not None and kept else None)
        if queued is None or (queued.place == "flight" and key not in cluster.assumed):
            # Quirk: a pod in flight is in no place of the queue, and so counts as a new one.
            queue.add(info, self.ctx.now_us())
            queue.pods[key].cause = self.ctx.kernel.cause
            cluster.nominate(info, info.nominated)
        elif key in cluster.assumed:
            # It is about to be bound, so that a nomination in its status no longer counts.
            queued.pod = info
        else:
            # The informer may not show a nomination made here yet: keep it until the status has
            # one.
            held = "" if queued.pod.nominated else cluster.nominations.get(key, "")
            queue.update(info, old is None or changed(old, new), self.ctx.now_us())
            cluster.nominate(info, info.nominated or held)
        self._wake()

    def _leave_queue(self, key: str) -> None:
        self.queue.delete(key)
        self.cluster.forget_nomination(key)  # also that of a pod that left the queue before

    # --- a cycle ----------------------------------------------------------------------------------

    def _cycle(self, _: Any) -> None:
        self._cycle_state = CycleState.NONE
        queued = self.queue.pop() if self._leading else None
        if queued is None:
            return
        if queued.pod.terminating:
            self.queue.delete(queued.pod.key)
            text = f"skip schedule deleting pod: {queued.pod.key}"
            self._event(queued.pod.obj, "Warning", ("FailedScheduling", "Scheduling"), text)
            self._wake()
        else:
            self._cycle_state = CycleState.RUNNING
            self._try(queued)

    def _over(self) -> None:
        """End the cycle under way, unless the next one is scheduled already."""
        if self._cycle_state is CycleState.RUNNING:
            self._cycle_state = CycleState.NONE
        self._wake()

    def _draw(self, count: int) -> int:
        return int(self._random() * count)

    def _try(self, queued: QueuedPod) -> None:
        pod, cycle = queued.pod, self.queue.cycle
        queued.begun_us = self.ctx.now_us() - CYCLE_US
        attempts = self._profiles[pod.obj["spec"]["schedulerName"]]
        # The next search of any profile begins where the latest has ended.
        attempts.start, self._latest = self._latest.start, attempts
        result = attempts.place(pod, self._budgets, self._draw)
        kernel = self.ctx.kernel
        kernel.follow(queued.cause)
        self._metering.searched(CYCLE_US, pod, result, attempts.feasible)
        if isinstance(result, Placed):
            if queued.unplaced:  # a change of that node after the last attempt made room
                queued.unplaced = False
                queued.cause = max(queued.cause, self._room_causes.get(result.node, 0))
                kernel.follow(queued.cause)
            kernel.follow(self.ctx.record(self._kind, (pod.key, result.node, "")))
            self._reserve(queued, result, cycle)
            self._over()
            return
        queued.cause = self.ctx.record(self._kind, (pod.key, "", result.message))
        kernel.follow(queued.cause)
        queued.unplaced = True
        if result.candidate is None:
            self._fail(queued, result, cycle, self._over)
        else:
            self._make_room(queued, result, list(result.candidate.victims), cycle)

    def _budgets(self) -> list[Budget]:
        budgets = []
        for obj in self._informers["poddisruptionbudgets"].list():
            status = obj.get("status") or {}
            budgets.append(
                Budget(
                    obj["metadata"]["namespace"],
                    from_label_selector(obj["spec"].get("selector")),
                    status.get("disruptionsAllowed") or 0,
                    frozenset(status.get("disruptedPods") or ()),
                )
            )
        return budgets

    def _reserve(self, queued: QueuedPod, placed: Placed, cycle: int) -> None:
        """Assume the pod on its node, have its volumes bound, and bind it."""
        pod, node = queued.pod, placed.node
        self.cluster.nominate(pod, "")
        taken = PodInfo(pod.obj, pod.template, node)
        self.cluster.assume(taken)
        bindings = None if placed.choice is None else reserve(self.storage, placed.choice, pod.key, node)
        self._metering.reserved(queued)
        if bindings is None:
            self._metering.prepared(queued, True)
            self._bind(queued, taken, None, cycle)
            return
        reserved = bindings

        def bound(problem: str) -> None:
            self._metering.prepared(queued, not problem)
            if problem:
                text = f'running PreBind plugin "VolumeBinding": {problem}'
                self._forget(queued, taken, reserved, text, cycle)
            else:
                self._bind(queued, taken, reserved, cycle)

        self._binders[pod.obj["spec"]["schedulerName"]].bind(bindings, bound)

    def _bind(self, queued: QueuedPod, taken: PodInfo, bindings: Bindings | None, cycle: int) -> None:
        pod, node = queued.pod, taken.node_name
        meta = pod.obj["metadata"]

        def bound(reply: Reply) -> None:
            self._metering.bound(queued, reply.ok)
            if reply.ok:
                self._metering.placed(queued)
                text = f"Successfully assigned {pod.key} to {node}"
                self._event(pod.obj, "Normal", ("Scheduled", "Binding"), text)
                return
            text = f'binding rejected: running Bind plugin "DefaultBinder": {reply.message}'
            self._forget(queued, taken, bindings, text, cycle)

        request = self._client.request(
            "create", "pods", meta["namespace"], meta["name"], subresource="binding", body=binding(pod, node)
        )
        self._client.call(request, bound)

    def _forget(
        self, queued: QueuedPod, taken: PodInfo, bindings: Bindings | None, text: str, cycle: int
    ) -> None:
        """Take back what was assumed, and queue the pod again."""
        pod = queued.pod
        if bindings is not None:
            unreserve(self.storage, bindings)
        if pod.key in self.cluster.assumed and self.cluster.pods[pod.key] is taken:
            # A new pod of the same name would be another object.
            self.cluster.remove_pod(pod.key)
            # Equivalent to a delete of the pod: other pods may use the room.
            self.queue.move(ClusterEvent.POD_DELETE, self.ctx.now_us())
        self.ctx.kernel.follow(self.ctx.record(self._kind, (pod.key, "", text)))
        # Quirk: the plugins that refused it earlier are forgotten (QueuedPodInfo.DeepCopy).
        self._fail(queued, Failed(text, ERROR, ()), cycle, self._wake)

    def _make_room(self, queued: QueuedPod, failed: Failed, victims: list[PodInfo], cycle: int) -> None:
        """Delete the victims one after the other; the attempt ends after the last one or the first
        failure.
        """
        assert failed.candidate is not None
        node, preemptor = failed.candidate.node, queued.pod.obj
        self._deleting = victims[0].key if len(victims) == 1 else ""
        if not victims:
            self._metering.preempted(len(failed.candidate.victims))
            lower = self._lower_nominated(queued.pod, node)
            self._yield_to(lower, partial(self._fail, queued, failed, cycle, self._over))
            return
        victim, *others = victims
        chosen = victim.obj  # its state at the choice
        recorder = self._recorders[preemptor["spec"]["schedulerName"]]

        def deleted(reply: Reply) -> None:
            if reply.ok:
                text = f"Preempted by a pod on node {node}"
                recorder.event(chosen, "Normal", ("Preempted", "Preempting"), text, preemptor)
                self._make_room(queued, failed, others, cycle)
            else:
                self._deleting = ""
                self._fail(queued, failed._replace(nominate=None), cycle, self._over)

        meta = chosen["metadata"]
        request = self._client.request("delete", "pods", meta["namespace"], meta["name"])
        patch = None
        if self._sets_disruption_condition:
            wanted = disrupted(chosen, Disruption.PREEMPTION, format_time(self.ctx.wall_us()))
            patch = status_patch(chosen, wanted)
        if patch is None:
            self._client.call(request, deleted)
        else:
            self._client.call(
                status_request(self._client, chosen, patch),
                lambda reply: self._client.call(request, deleted) if reply.ok else deleted(reply),
            )

    def _lower_nominated(self, pod: PodInfo, node: str) -> list[Obj]:
        """Return the pods of lower priority with that node as nominatedNodeName in their status."""
        waiting = self.cluster.nominated.get(node, {}).values()
        return [w.obj for w in waiting if w.template.priority < pod.template.priority and w.nominated]

    def _yield_to(self, lower: list[Obj], then: Callable[[], None]) -> None:
        """Clear the nominations in the statuses of these pods, one after the other, then call
        `then`.
        """
        if not lower:
            then()
            return
        self._patch_status(lower[0], {"nominatedNodeName": None}, partial(self._yield_to, lower[1:], then))

    # --- failure ----------------------------------------------------------------------------------

    def _fail(self, queued: QueuedPod, failed: Failed, cycle: int, then: Callable[[], None]) -> None:
        """Queue the pod again if it still waits, report the failure in any case, and call `then`."""
        pod = queued.pod
        self._metering.failed(queued, failed)
        latest, known = self._pods.get(pod.key), self.queue.pods.get(pod.key)
        if latest is None or not waits(latest, self._profiles):
            self._leave_queue(pod.key)
        elif known is not None and known.pod.uid == pod.uid:  # not a new pod of the same name
            self.queue.put_back(queued, failed.plugins, cycle, self.ctx.now_us())
            nominate = known.pod.nominated if failed.nominate is None else failed.nominate
            self.cluster.nominate(known.pod, nominate)
        self._event(pod.obj, "Warning", ("FailedScheduling", "Scheduling"), failed.message)
        now = format_time(self.ctx.wall_us())
        patch = condition_patch(pod.obj, failed.reason, failed.message, now)
        if failed.nominate is not None and failed.nominate != pod.nominated:
            patch = {**(patch or {}), "nominatedNodeName": failed.nominate or None}
        if patch is None:
            then()
        else:
            self._patch_status(pod.obj, patch, then)

    def _patch_status(self, pod: Obj, status: Obj, then: Callable[[], None]) -> None:
        request = status_request(self._client, pod, {"status": status})
        self._send_patch((request, PATCH_PAUSES_US, then))

    def _send_patch(self, patch: tuple[Request, Sequence[int], Callable[[], None]]) -> None:
        request, pauses_us, then = patch

        def answered(reply: Reply) -> None:
            """Send it again if no server accepted it; the pod's next attempt repeats other failed
            patches.
            """
            if reply.lost == REFUSED and pauses_us:
                self.ctx.call_later_us(pauses_us[0], self._send_patch, (request, pauses_us[1:], then))
            else:
                then()

        self._client.call(request, answered)


def _owners(pod: Obj) -> Any:
    return pod["metadata"].get("ownerReferences")
