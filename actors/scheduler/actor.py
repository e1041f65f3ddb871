"""The scheduler process: informers feed the queue and the cluster view, cycles try pods, binds go out.

Turns events of informers into changes of `Cluster` and `SchedulingQueue`, and the answers of `Attempts` into
requests: Bindings, deletes of victims, status patches, events.

Holds: informers run before leadership is won, cycles only while it is held; one cycle at a time, which deletes
its victims one after the other and lasts until the status of a pod that has no node is written, binds overlap them; a
pod is in the queue until it has a node in the informer's view or is gone; what a failed bind assumed is forgotten.

Mirrors  kubernetes v1.25 cmd/kube-scheduler/app/server.go, pkg/scheduler/{scheduler,schedule_one,
         eventhandlers}.go.
Differs  a cycle takes a fixed time, besides what it waits for; a pod that a list shows under the name of another is that
         one's deletion and a new pod (upstream keeps the other's back-off, and exits where both have nodes, and not the
         same: cache.go UpdatePod).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from actors.scheduler.attempt import ERROR, Attempts, Failed, Placed
from actors.scheduler.cluster import Cluster
from actors.scheduler.events import EventSeries
from actors.scheduler.match import from_label_selector
from actors.scheduler.plugins.node_filters import admits
from actors.scheduler.pods import OWNERS, PodInfo, Template, binding, is_dying
from actors.scheduler.preempt import Budget
from actors.scheduler.queue import FLUSH_BACKOFF_US, FLUSH_LEFTOVER_US, QueuedPod, SchedulingQueue
from actors.scheduler.status import assigned, condition_patch, node_event, waits
from sim.api.kinds.core.pod.disruption_target import Disruption, disrupted, status_patch
from sim.api.schema.scheme import Scheme
from sim.api.types import Obj, Reply, Request, Transport, UserInfo
from sim.client import DEFAULT_QPS, Client, ElectionOptions, EventRecorder, Informers, candidate
from sim.client.rest.channel import REFUSED
from sim.client.rest.pod_status import status_request
from sim.ident import Names
from sim.kernel import Context, Kind
from sim.options.gates import OF_SPREAD, POD_DISRUPTION, enabled
from sim.options.scheduler import SchedulerOptions
from sim.units import format_time

# Upstream's scheduler_perf reaches some hundred pods a second to a thousand on large clusters: about a
# millisecond from one pod to the next.
CYCLE_US = 1_000
# Between the tries of a status patch that no server takes (client-go util/retry DefaultBackoff, without its jitter).
PATCH_PAUSES_US = (10_000, 50_000, 250_000)
Connect = Callable[[Context], Sequence[Transport]]


def user_of(names: Names) -> UserInfo:
    return UserInfo(names.user_scheduler, (names.group_authenticated,))


def scheduler_main(
    options: SchedulerOptions, scheme: Scheme, names: Names, connect: Connect
) -> Callable[[Context], Any]:
    """The `main` of a scheduler actor; `connect` gives the ways to the API servers."""

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
        recorder = EventSeries(ctx, event_client, options.scheduler_name)
        scheduler = Scheduler(ctx, options, names, (main_client, informers, recorder))
        await informers.start_and_sync()
        if not options.leader_elect:
            await scheduler.lead()
            return
        lease = (options.leader_elect_resource_namespace, options.leader_elect_resource_name)
        election = ElectionOptions(
            options.leader_elect_lease_duration_us,
            options.leader_elect_renew_deadline_us,
            options.leader_elect_retry_period_us,
            release_on_cancel=True,
            resource_lock=options.leader_elect_resource_lock,
        )
        # Upstream's identity is the host's name and a fresh uuid for each process.
        identity = f"{ctx.name}_{ctx.incarnation}"
        elector = candidate(ctx, client("leader-election"), lease, identity, election)
        ctx.on_terminate(elector.stop)

        async def lead() -> None:
            elector.announce(EventRecorder(ctx, event_client, options.scheduler_name))
            await scheduler.lead()

        await elector.run(lead)
        ctx.exit("leader election lost")

    return main


class Scheduler:
    """One scheduler's memory and its reactions."""

    def __init__(
        self,
        ctx: Context,
        options: SchedulerOptions,
        names: Names,
        clients: tuple[Client, Informers, EventSeries],
    ) -> None:
        self.ctx = ctx
        self.cluster = Cluster(names, [gate for gate in OF_SPREAD if enabled(options.feature_gates, gate)])
        self.queue = SchedulingQueue(
            options.pod_initial_backoff_us, options.pod_max_backoff_us, options.pod_max_unschedulable_us
        )
        self.attempts = Attempts(self.cluster, options.percentage_of_nodes_to_score)
        self._name = options.scheduler_name
        self._tells_why = enabled(options.feature_gates, POD_DISRUPTION)
        self._client, self._informers, self._events = clients
        self._pods = self._informers["pods"]
        self._budgets_informer = self._informers["poddisruptionbudgets"]
        self._nodes = self._informers["nodes"]
        self._random = ctx.stream("scheduler").random
        self._kind: Kind = ctx.kernel.kind("schedule", "pod", "node", "message")
        self._opened: dict[str, int] = {}  # node -> the record by which there was last more room on it
        self._leading = False
        self._due = False
        self._busy = False  # a cycle is under way
        self._going = ""  # the last victim, while it is not known that it ends
        self._watch()

    def _watch(self) -> None:
        informers, cluster = self._informers, self.cluster
        self._pods.on(add=self._pod_added, update=self._pod_updated, delete=self._pod_deleted)
        self._nodes.on(
            self._node_added, self._node_updated, self._node_deleted, beat=self._node_beaten, urged=True
        )
        for resource, (_, kind) in OWNERS.items():
            if self._client.scheme.find(*resource):
                self._watch_owner(resource[2], kind)

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

    # --- leading --------------------------------------------------------------------------------------------

    async def lead(self) -> None:
        """Schedule until the lease is lost or given up."""
        self._leading = True
        self.ctx.call_later_us(FLUSH_BACKOFF_US, self._flush_backoff)
        self.ctx.call_later_us(FLUSH_LEFTOVER_US, self._flush_leftover)
        self._wake()
        try:
            await self.ctx.forever()
        finally:
            self._leading = False

    def _flush_backoff(self, _: Any) -> None:
        self.queue.flush_backoff(self.ctx.now_us())
        self.ctx.call_later_us(FLUSH_BACKOFF_US, self._flush_backoff)
        self._wake()

    def _flush_leftover(self, _: Any) -> None:
        self.queue.flush_leftover(self.ctx.now_us())
        self.ctx.call_later_us(FLUSH_LEFTOVER_US, self._flush_leftover)
        self._wake()

    def _wake(self) -> None:
        """See to it that a cycle comes if a pod can be tried."""
        if self._leading and not self._due and not self._busy and len(self.queue):
            self._due = True
            self.ctx.call_later_us(CYCLE_US, self._cycle)

    # --- nodes ----------------------------------------------------------------------------------------------

    def _set_node(self, node: Obj) -> None:
        self.cluster.set_node(node)
        self._nodes.urge("scheduler", not self.cluster.images.settled)

    def _node_beaten(self, old: Obj, _: Obj) -> None:
        self.cluster.hear_of(old["metadata"]["name"])
        self._nodes.urge("scheduler", not self.cluster.images.settled)

    def _node_added(self, node: Obj) -> None:
        self._set_node(node)
        self._node_event(node, "NodeAdd")

    def _node_updated(self, old: Obj, new: Obj) -> None:
        self._set_node(new)
        event = node_event(old, new)
        if event:
            self._node_event(new, event)

    def _node_deleted(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        self.cluster.delete_node(name)
        self._nodes.urge("scheduler", not self.cluster.images.settled)
        self._opened.pop(name, None)

    def _node_event(self, node: Obj, event: str) -> None:
        info = self.cluster.nodes[node["metadata"]["name"]]
        known: dict[Template, bool] = {}

        def may_help(pod: PodInfo) -> bool:
            answer = known.get(pod.template)
            if answer is None:
                answer = known[pod.template] = admits(pod.template, info)
            return answer

        self._opened[node["metadata"]["name"]] = self.ctx.kernel.cause
        self.queue.move(event, self.ctx.now_us(), may_help)
        self._wake()

    # --- pods -----------------------------------------------------------------------------------------------

    def _pod_added(self, pod: Obj) -> None:
        if assigned(pod):
            self._set_assigned(pod)
        elif waits(pod, self._name):
            self._set_waiting(None, pod)

    def _pod_updated(self, old: Obj, new: Obj) -> None:
        if old["metadata"].get("uid") != new["metadata"].get("uid"):
            self._pod_deleted(old)  # its deletion was missed
            self._pod_added(new)
        elif assigned(new):
            self._set_assigned(new)
        elif waits(new, self._name):
            self._set_waiting(old, new)
        else:
            self._pod_deleted(old)

    def _pod_deleted(self, pod: Obj) -> None:
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._leave_queue(key)
        known = self.cluster.pods.get(key)
        if known is not None:
            self._opened[known.node_name] = self.ctx.kernel.cause
            self.cluster.remove_pod(key)
            self.queue.move("AssignedPodDelete", self.ctx.now_us())
            self._wake()

    def _set_assigned(self, pod: Obj) -> None:
        cluster = self.cluster
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        known = cluster.pods.get(key)
        fresh = known is None or key in cluster.assumed
        if known is not None and not fresh and known.asks_as(pod) and known.dying == is_dying(pod):
            info = known
        else:
            info = cluster.templates.info(pod, known)
            cluster.set_pod(info)
        info.held = self._pods.item(key) or pod
        if fresh:
            self._leave_queue(key)
        event = "AssignedPodAdd" if fresh else "AssignedPodUpdate"
        # What is answered is mostly seen a little later, and the try is over by then: here the watch may be the first.
        late = key == self._going
        if self.queue.assigned_pod(info, event, cluster.namespaces, self.ctx.now_us(), late=late):
            self._wake()

    def _set_waiting(self, old: Obj | None, new: Obj) -> None:
        cluster, queue = self.cluster, self.queue
        key = f"{new['metadata']['namespace']}/{new['metadata']['name']}"
        queued = queue.pods.get(key)
        kept = queued is not None and _owners(queued.pod.obj) == _owners(new)  # by which its kind is spread
        info = cluster.templates.info(new, queued.pod if queued is not None and kept else None)
        if queued is None or (queued.place == "flight" and key not in cluster.assumed):
            # Quirk: one that is being tried is in none of the queue's places, and is taken for a new one.
            queue.add(info, self.ctx.now_us())
            queue.pods[key].cause = self.ctx.kernel.cause
            cluster.nominate(info, info.nominated)
        elif key in cluster.assumed:
            queued.pod = info  # about to be bound, it waits for no room, though its status may come to say so
        else:
            # A nomination made here may not have come back with the status yet: keep it until there is one.
            held = "" if queued.pod.nominated else cluster.nominations.get(key, "")
            queue.update(info, old is None or _changed(old, new), self.ctx.now_us())
            cluster.nominate(info, info.nominated or held)
        self._wake()

    def _leave_queue(self, key: str) -> None:
        self.queue.delete(key)
        self.cluster.forget_nomination(key)  # also of one that had left before, since it is being deleted

    # --- a cycle ----------------------------------------------------------------------------------------------

    def _cycle(self, _: Any) -> None:
        self._due = False
        queued = self.queue.pop() if self._leading else None
        if queued is None:
            return
        if queued.pod.dying:
            self.queue.delete(queued.pod.key)
            text = f"skip schedule deleting pod: {queued.pod.key}"
            self._events.event(queued.pod.obj, "Warning", ("FailedScheduling", "Scheduling"), text)
            self._wake()
        else:
            self._busy = True
            self._try(queued)

    def _over(self) -> None:
        """The cycle under way has ended."""
        self._busy = False
        self._wake()

    def _draw(self, count: int) -> int:
        return int(self._random() * count)

    def _try(self, queued: QueuedPod) -> None:
        pod, cycle = queued.pod, self.queue.cycle
        answer = self.attempts.place(pod, self._budgets, self._draw)
        kernel = self.ctx.kernel
        kernel.cause = queued.cause
        if isinstance(answer, Placed):
            if queued.unplaced:  # it fits now because of what happened to that node since it did not
                queued.unplaced = False
                queued.cause = kernel.cause = max(queued.cause, self._opened.get(answer.node, 0))
            kernel.cause = self.ctx.record(self._kind, (pod.key, answer.node, ""))
            self._bind(queued, answer.node, cycle)
            self._over()
            return
        kernel.cause = queued.cause = self.ctx.record(self._kind, (pod.key, "", answer.message))
        queued.unplaced = True
        if answer.candidate is None:
            self._fail(queued, answer, cycle, self._over)
        else:
            self._make_room(queued, answer, list(answer.candidate.victims), cycle)

    def _budgets(self) -> list[Budget]:
        budgets = []
        for obj in self._budgets_informer.list():
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

    def _bind(self, queued: QueuedPod, node: str, cycle: int) -> None:
        pod = queued.pod
        meta = pod.obj["metadata"]
        self.cluster.nominate(pod, "")
        taken = PodInfo(pod.obj, pod.template, node)
        self.cluster.assume(taken)

        def bound(reply: Reply) -> None:
            if reply.ok:
                text = f"Successfully assigned {pod.key} to {node}"
                self._events.event(pod.obj, "Normal", ("Scheduled", "Binding"), text)
                return
            if pod.key in self.cluster.assumed and self.cluster.pods[pod.key] is taken:
                self.cluster.remove_pod(pod.key)  # not what a pod made anew under its name has taken since
                # As if the pod had been deleted from its node: others may use the room.
                self.queue.move("AssignedPodDelete", self.ctx.now_us())
            text = f'binding rejected: running Bind plugin "DefaultBinder": {reply.message}'
            # Quirk: by which plugins it was refused earlier is forgotten (QueuedPodInfo.DeepCopy).
            self._fail(queued, Failed(text, ERROR, ()), cycle, self._wake)

        request = self._client.request(
            "create", "pods", meta["namespace"], meta["name"], subresource="binding", body=binding(pod, node)
        )
        self._client.call(request, bound)

    def _make_room(self, queued: QueuedPod, failed: Failed, victims: list[PodInfo], cycle: int) -> None:
        """Delete the victims one after the other; then the try is over, or when one of them could not be."""
        assert failed.candidate is not None
        node, preemptor = failed.candidate.node, queued.pod.obj
        self._going = victims[0].key if len(victims) == 1 else ""
        if not victims:
            lower = self._lower_nominated(queued.pod, node)
            self._yield_to(lower, partial(self._fail, queued, failed, cycle, self._over))
            return
        victim, *others = victims
        chosen = victim.obj  # as it was then

        def deleted(reply: Reply) -> None:
            if reply.ok:
                text = f"Preempted by a pod on node {node}"
                self._events.event(chosen, "Normal", ("Preempted", "Preempting"), text, preemptor)
                self._make_room(queued, failed, others, cycle)
            else:
                self._going = ""
                self._fail(queued, failed._replace(nominate=None), cycle, self._over)

        meta = chosen["metadata"]
        request = self._client.request("delete", "pods", meta["namespace"], meta["name"])
        told = None
        if self._tells_why:
            wanted = disrupted(chosen, Disruption.PREEMPTION, format_time(self.ctx.wall_us()))
            told = status_patch(chosen, wanted)
        if told is None:
            self._client.call(request, deleted)
        else:
            self._client.call(
                status_request(self._client, chosen, told),
                lambda reply: self._client.call(request, deleted) if reply.ok else deleted(reply),
            )

    def _lower_nominated(self, pod: PodInfo, node: str) -> list[Obj]:
        """Pods of lower priority that wait for room on that node and say so in their status."""
        waiting = self.cluster.nominated.get(node, {}).values()
        return [w.obj for w in waiting if w.template.priority < pod.template.priority and w.nominated]

    def _yield_to(self, lower: list[Obj], then: Callable[[], None]) -> None:
        """Let these, one after the other, wait for room no longer: they do until their status is seen to say so."""
        if not lower:
            then()
            return
        self._patch_status(lower[0], {"nominatedNodeName": None}, partial(self._yield_to, lower[1:], then))

    # --- failure ------------------------------------------------------------------------------------------------

    def _fail(self, queued: QueuedPod, failed: Failed, cycle: int, then: Callable[[], None]) -> None:
        """Queue the pod again if it still waits, and tell why it has no node, even if it is gone; `then` go on."""
        pod = queued.pod
        latest, known = self._pods.get(pod.key), self.queue.pods.get(pod.key)
        if latest is None or not waits(latest, self._name):
            self._leave_queue(pod.key)
        elif known is not None and known.pod.uid == pod.uid:  # none that was made anew under its name
            self.queue.put_back(queued, failed.plugins, cycle, self.ctx.now_us())
            nominate = known.pod.nominated if failed.nominate is None else failed.nominate
            self.cluster.nominate(known.pod, nominate)
        self._events.event(pod.obj, "Warning", ("FailedScheduling", "Scheduling"), failed.message)
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
            """What fails otherwise is given up: the next try of the pod writes again."""
            if reply.lost == REFUSED and pauses_us:
                self.ctx.call_later_us(pauses_us[0], self._send_patch, (request, pauses_us[1:], then))
            else:
                then()

        self._client.call(request, answered)


def _owners(pod: Obj) -> Any:
    return pod["metadata"].get("ownerReferences")


def _changed(old: Obj, new: Obj) -> bool:
    """Whether the pod differs in more than its status, finalizers and bookkeeping (isPodUpdated)."""
    if old["spec"] is not new["spec"] and old["spec"] != new["spec"]:
        return True
    was, now = old["metadata"], new["metadata"]
    return any(
        was.get(field) != now.get(field)
        for field in ("labels", "annotations", "deletionTimestamp", "ownerReferences")
    )
