"""Shared parts of controllers that own pods: finding pods, pods from templates, readiness,
requests.

Turns pod events into keys of their owners (`PodEvents`), a template into a pod that shares the
template's subtrees, and creates and deletes into requests with events and expectations
(`PodControl`).

Holds: a pod made from a template shares the parts of `spec` with it by identity, so that the API
server's memoized defaulting and validation see one object; an event of a pod with an owner of
another kind costs one look at its controller reference.

Mirrors  kubernetes v1.25 pkg/controller/controller_utils.go (RealPodControl, IsPodActive),
         pkg/api/v1/pod/util.go (IsPodAvailable), the pod handlers of
         pkg/controller/{replicaset,daemon,statefulset}.
Differs  an update that changes nothing an owner decides by (node, addresses, container states)
         queues no key; upstream runs a sync that finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from actors.controllers.shared.shell import Expectations, controller_ref, in_parallel, slow_start
from sim.api.objects import condition_of, controller_of, is_deleting, is_ready, key_of
from sim.api.selectors import LabelSelector, from_selector
from sim.api.types import Obj, Reply
from sim.dataclass import dataclass
from sim.units import SECOND, parse_time, parse_whole

if TYPE_CHECKING:
    from actors.controllers.shared.shell import Env, Send
    from sim.api.store import Item
    from sim.client import Client, EventRecorder, Informer, WorkQueue

T = TypeVar("T")

CONTROLLER_INDEX = "controller"
NAMESPACE_INDEX = "namespace"
LABEL_INDEX = "label-pair"
_TERMINATING = "NamespaceTerminating"


# --- facts of objects -----------------------------------------------------------------------------


def for_last_pair(fn: Callable[[Any, Any], T]) -> Callable[[Any, Any], T]:
    """Memoize `fn` for the pair of immutable objects that it was last called with.

    The handlers of several controllers see the same update one after the other.
    """
    last: tuple[Any, Any, T] | None = None

    def memoized(old: Any, new: Any) -> T:
        nonlocal last
        if last is None or old is not last[0] or new is not last[1]:
            last = old, new, fn(old, new)
        return last[2]

    return memoized


@for_last_pair
def ready_conditions(old: Obj, new: Obj) -> tuple[Obj | None, Obj | None]:
    """The Ready conditions of two revisions of a pod; the same object twice if they are equal."""
    before, after = old.get("status", {}).get("conditions"), new.get("status", {}).get("conditions")
    condition = condition_of(new, "Ready")
    return (condition if before is after else condition_of(old, "Ready")), condition


def ready_changed(old: Obj, new: Obj) -> bool:
    """True if `is_ready` differs between two revisions of a pod."""
    before, after = ready_conditions(old, new)
    if before is after:
        return False
    return (before is not None and before["status"] == "True") != (
        after is not None and after["status"] == "True"
    )


def ready_since_us(pod: Obj) -> int | None:
    """Unix time of the transition to Ready; None if the pod is not ready, 0 if the time is unknown."""
    condition = condition_of(pod, "Ready")
    if condition is None or condition["status"] != "True":
        return None
    text = condition.get("lastTransitionTime")
    return parse_time(text) if text else 0


def is_available(pod: Obj, min_ready_s: int, wall_us: int) -> bool:
    """True if the pod is ready for at least `min_ready_s` (Quirk: strictly longer, in whole
    seconds).
    """
    since_us = ready_since_us(pod)
    if since_us is None:
        return False
    return not min_ready_s or (since_us != 0 and since_us + min_ready_s * SECOND < wall_us)


def int_or_percent(value: Any, total: int, round_up: bool) -> int:
    """An absolute number, or a percentage of `total`; any other value counts as 0."""
    if isinstance(value, int):
        return value
    share = parse_whole(value[:-1]) if isinstance(value, str) and value.endswith("%") else None
    if share is None:
        return 0
    hundredths = share * total
    return -(-hundredths // 100) if round_up else hundredths // 100


def generate_prefix(owner_name: str) -> str:
    """Prefix of the names of an owner's pods: `<owner>-`, or the name alone if that is too long."""
    return f"{owner_name}-" if len(owner_name) < 253 else owner_name


def pod_from_template(template: Obj, owner: Obj, ref: Obj | None) -> Obj:
    """The pod of `owner` to create: metadata of its own, all other parts shared with the template."""
    meta = template.get("metadata") or {}
    made: Obj = {"generateName": generate_prefix(owner["metadata"]["name"])}
    for part in ("labels", "annotations", "finalizers"):
        if meta.get(part):
            made[part] = meta[part]
    if ref is not None:
        made["ownerReferences"] = [ref]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": template.get("spec") or {}}


# --- finding --------------------------------------------------------------------------------------


def owner_values(obj: Obj) -> tuple[str, ...]:
    """Index values of an owned object: its controller's uid, or its namespace's orphans."""
    ref = controller_of(obj)
    return (ref["uid"],) if ref is not None else (f"orphan/{obj['metadata'].get('namespace', '')}",)


def namespace_values(obj: Obj) -> tuple[str, ...]:
    """Values of an object in the namespace index."""
    return (obj["metadata"].get("namespace", ""),)


def label_values(obj: Obj) -> tuple[str, ...]:
    """Values of an object in the label index: "namespace/key=value" for each label."""
    meta = obj["metadata"]
    namespace = meta["namespace"]
    return tuple(f"{namespace}/{k}={v}" for k, v in (meta.get("labels") or {}).items())


def pair_of(namespace: str, labels: Mapping[str, str]) -> str:
    """One value of the label index that every object has which carries these labels."""
    key = min(labels)
    return f"{namespace}/{key}={labels[key]}"


def index_by_labels(informer: Informer) -> None:
    """Add the label index to an informer."""
    informer.add_index(LABEL_INDEX, label_values, ("metadata", "labels"))


def index_by_controller(informer: Informer) -> None:
    """Add the index by controller uid to an informer."""
    informer.add_index(CONTROLLER_INDEX, owner_values, ("metadata", "ownerReferences"))


def controller_kind(obj: Obj) -> str:
    """The kind of the object's controller, "" for an orphan."""
    ref = controller_of(obj)
    return str(ref["kind"]) if ref is not None else ""


def route_by_controller(informer: Informer) -> None:
    """Deliver the events of owned objects only to handlers for their controller's kind.

    Orphans are delivered to all handlers.
    """
    informer.route(controller_kind, "ownerReferences")


def index_by_namespace(informer: Informer) -> None:
    """Add the namespace index to an informer."""
    informer.add_index(NAMESPACE_INDEX, namespace_values, ("metadata", "namespace"))


def candidates_of(informer: Informer, owner: Obj) -> list[Obj]:
    """The objects that the owner controls, and the orphans of its namespace that it might adopt."""
    meta = owner["metadata"]
    owned = informer.by_index(CONTROLLER_INDEX, meta["uid"])
    orphans = informer.by_index(CONTROLLER_INDEX, f"orphan/{meta.get('namespace', '')}")
    return [*owned, *orphans]


def labelled(informer: Informer, namespace: str, selector: LabelSelector) -> list[Obj]:
    """The objects of a namespace that match a selector.

    Uses the label index if the selector requires one exact label, else the namespace index.
    """
    one = next((r for r in selector.requirements if r.operator == "In" and len(r.values) == 1), None)
    if one is None:
        index_by_namespace(informer)
        found = informer.by_index(NAMESPACE_INDEX, namespace)
    else:
        index_by_labels(informer)
        found = informer.by_index(LABEL_INDEX, f"{namespace}/{one.key}={one.values[0]}")
    return [obj for obj in found if selector.matches(obj["metadata"].get("labels"))]


def attribute_causes(queue: WorkQueue, owners: Informer, owned: Informer) -> None:
    """Attribute each queued owner to the latest change of its objects. Call before the first sync.

    Owned objects may have been listed before their owners, or be gone, so that no handler has
    attributed their changes.
    """
    for owner in owners.list():
        uid = owner["metadata"]["uid"]
        found = owned.items_by_index(CONTROLLER_INDEX, uid)
        queue.add_cause(key_of(owner), max([queue.gone(uid), *(item.cause for item in found)]))


def latest_cause(queue: WorkQueue, pods: Informer, found: Sequence[Item], namespace: str) -> int:
    """The trace record of the latest change among these pods of a namespace; 0 if unknown.

    Deletes of other pods of the same owners count as changes. Without pods, it is the latest delete
    of a pod in the namespace. A starting process lists all pods at once, so the order in which it
    sees them is not the order of their changes.
    """
    if not found:
        return queue.gone(pods.long(f"{namespace}/"))
    last, owners = 0, dict[str, None]()
    for pod in found:
        last = max(last, pod.cause)
        for ref in pod.peek("metadata", "ownerReferences") or ():
            owners[ref["uid"]] = None
    return max([last, *map(queue.gone, owners)])


def selector_of(owner: Obj) -> Callable[[Obj], bool]:
    """A function that returns True for objects with labels that match the owner's selector.

    A ReplicationController has a plain map of labels as its selector.
    """
    selector = owner["spec"].get("selector")
    if owner.get("kind") == "ReplicationController":
        selector = {"matchLabels": selector or {}}
    parsed = from_selector(selector)
    return lambda obj: parsed.matches(obj["metadata"].get("labels") or {})


def selects_nothing(owner: Obj) -> bool:
    """True if the selector is empty: such an owner does not adopt."""
    selector = owner["spec"].get("selector") or {}
    if owner.get("kind") == "ReplicationController":
        return not selector
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


DECISIVE = ("labels", "ownerReferences", "deletionTimestamp", "generation")


def pod_changed(old: Obj, new: Obj) -> bool:
    """True if an update changes anything that an owner of pods decides by."""
    was, now = old.get("status", {}), new.get("status", {})
    if was is not now:
        if was.get("phase") != now.get("phase"):
            return True
        before, after = ready_conditions(old, new)
        if before is not after and before != after:
            return True
    had_meta, has_meta = old["metadata"], new["metadata"]
    if had_meta is has_meta:
        return False
    return [*map(had_meta.get, DECISIVE)] != [*map(has_meta.get, DECISIVE)]


class PodEvents:
    """Pod handlers for one kind of owner: they queue the owner and settle its expectations.

    named: True if deletes are expected by name, so that a pod's deletionTimestamp and its removal
        count once
    """

    def __init__(
        self,
        kind: str,
        owners: Informer,
        queue: WorkQueue,
        expectations: Expectations | None = None,
        named: bool = True,
    ) -> None:
        self._named = named
        self._kind = kind
        self._owners = owners
        self._queue = queue
        self._expectations = expectations
        # Owner uid -> latest change of a pod that was listed before its owner.
        self._early_causes: dict[str, int] = {}

    def attach(self, pods: Informer) -> None:
        """Register the handlers on the pod informer."""
        route_by_controller(pods)
        if not self._owners.synced:
            self._owners.on(add=self._owner_added)
            self._owners.when_synced(self._early_causes.clear)
        pods.on(add=self.added, update=self.updated, delete=self.deleted, about=self._kind)

    def owner(self, pod: Obj, ref: Obj) -> Obj | None:
        """The object that a reference means, if it has the handled kind and still has this uid."""
        if ref["kind"] != self._kind:
            return None
        owner = self._owners.get(f"{pod['metadata']['namespace']}/{ref['name']}")
        return owner if owner is not None and owner["metadata"]["uid"] == ref["uid"] else None

    def _owner_added(self, owner: Obj) -> None:
        uid = owner["metadata"]["uid"]
        cause = max(self._early_causes.pop(uid, 0), self._queue.gone(uid))
        if cause:
            self._queue.add_cause(key_of(owner), cause)

    def added(self, pod: Obj) -> None:
        """Queue the pod's owner and count an expected create."""
        ref = controller_of(pod)
        if is_deleting(pod):
            # A restarted process first sees this pod while it terminates: no create is expected.
            self.deleted(pod)
            self._record_early(ref)
            return
        if ref is None:
            self.queue_matching(pod)
            return
        owner = self.owner(pod, ref)
        if owner is not None:
            key = key_of(owner)
            if self._expectations is not None:
                self._expectations.created(key)
            self._queue.add(key)
        else:
            self._record_early(ref)

    def _record_early(self, ref: Obj | None) -> None:
        if ref is not None and ref["kind"] == self._kind and not self._owners.synced:
            uid = ref["uid"]
            self._early_causes[uid] = max(self._queue.cause, self._early_causes.get(uid, 0))

    def updated(self, old: Obj, new: Obj) -> None:
        """Queue the owners before and after the update; a pod that starts to terminate is deleted."""
        if not pod_changed(old, new):
            return
        if is_deleting(new):
            self.deleted(new)
            if old["metadata"].get("labels") != new["metadata"].get("labels"):
                self.deleted(old)
            return
        ref = controller_of(new)
        same = old["metadata"].get("ownerReferences") is new["metadata"].get("ownerReferences")
        before = ref if same else controller_of(old)
        if before is not None and before != ref:
            former = self.owner(old, before)
            if former is not None:
                self._queue.add(key_of(former))
        if ref is None:
            if before is not None or old["metadata"].get("labels") != new["metadata"].get("labels"):
                self.queue_matching(new)
            return
        owner = self.owner(new, ref)
        if owner is None:
            return
        key = key_of(owner)
        self._queue.add(key)
        min_ready_s = owner["spec"].get("minReadySeconds") or 0
        if min_ready_s and not is_ready(old) and is_ready(new):
            # One second more: times are cut to seconds, so a sync at the exact end would be early.
            self._queue.add_after_us(key, (min_ready_s + 1) * SECOND)

    def deleted(self, pod: Obj) -> None:
        """Queue the pod's owner and count an expected delete."""
        ref = controller_of(pod)
        if ref is None:
            return
        owner = self.owner(pod, ref)
        if owner is not None:
            key = key_of(owner)
            if self._expectations is not None:
                self._expectations.deleted(key, key_of(pod) if self._named else None)
            self._queue.add(key)

    def queue_matching(self, pod: Obj) -> None:
        """Queue the owners that might adopt an orphan; an orphan without labels matches none."""
        if not pod["metadata"].get("labels"):
            return
        for owner in self._owners.by_index(NAMESPACE_INDEX, pod["metadata"].get("namespace", "")):
            if not selects_nothing(owner) and selector_of(owner)(pod):
                self._queue.add(key_of(owner))


# --- creates and deletes --------------------------------------------------------------------------


def is_terminating_refusal(reply: Reply) -> bool:
    """True if a create was rejected because its namespace is being deleted: it is not retried."""
    if reply.ok or not isinstance(reply.body, dict):
        return False
    causes = (reply.body.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == _TERMINATING for cause in causes)


def created_or_terminating(reply: Reply) -> bool:
    """True if a create needs no retry: it succeeded, or its namespace is being deleted."""
    return reply.ok or is_terminating_refusal(reply)


@dataclass(slots=True)
class PodControl:
    """Creates and deletes pods of owners; records the owner's events and settles its expectations.

    named: True if deletes are expected by name
    """

    env: Env
    client: Client
    recorder: EventRecorder
    expectations: Expectations | None = None
    named: bool = True

    def create_send(self, owner: Obj, pods: Callable[[int], Obj]) -> Send:
        """A function that creates the `index`-th pod, for `slow_start`.

        It records the event and settles the expectation before it passes the reply on.
        """
        key, namespace = key_of(owner), owner["metadata"]["namespace"]

        def send(index: int, on_reply: Callable[[Reply], None]) -> None:
            pod = pods(index)
            request = self.client.request("create", "pods", namespace, body=pod)

            def settled(reply: Reply) -> None:
                if reply.ok:
                    name = reply.obj["metadata"]["name"]
                    self.recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {name}")
                elif not is_terminating_refusal(reply):
                    self.recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {reply.message}")
                    if self.expectations is not None:
                        # The informer will never show a create that failed.
                        self.expectations.created(key)
                on_reply(reply)

            self.client.call(request, settled)

        return send

    async def create(self, owner: Obj, pods: Sequence[Obj]) -> str | None:
        """Create pods in growing batches; returns the first error or None."""
        return (await self.create_counted(owner, pods))[1]

    async def create_counted(self, owner: Obj, pods: Sequence[Obj]) -> tuple[int, str | None]:
        """As `create`, but returns (number of creates without error, first error or None).

        Expectations of creates that were not attempted are removed.
        """
        send = self.create_send(owner, lambda index: pods[index])
        replies = await slow_start(
            self.env.ctx, len(pods), send, lambda reply: not created_or_terminating(reply)
        )
        if self.expectations is not None and len(replies) < len(pods):
            self.expectations.created(key_of(owner), len(pods) - len(replies))
        refused = [reply for reply in replies if not created_or_terminating(reply)]
        return len(replies) - len(refused), refused[0].message if refused else None

    async def delete(self, owner: Obj, pods: Sequence[Obj]) -> str | None:
        """Delete pods in parallel; returns the first error or None. A missing pod is no error."""
        replies = await in_parallel(self.env.ctx, len(pods), self.delete_send(owner, pods))
        return next(
            (f"unable to delete pods: {r.message}" for r in replies if not r.ok and r.reason != "NotFound"),
            None,
        )

    def delete_send(self, owner: Obj, pods: Sequence[Obj]) -> Send:
        """A function that deletes the `index`-th pod, for `in_parallel`.

        It records the event and settles the expectation before it passes the reply on.
        """
        key = key_of(owner)

        def send(index: int, on_reply: Callable[[Reply], None]) -> None:
            pod = pods[index]
            meta = pod["metadata"]

            def settled(reply: Reply) -> None:
                if reply.ok:
                    self.recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {meta['name']}")
                else:
                    if self.expectations is not None:
                        self.expectations.deleted(key, key_of(pod) if self.named else None)
                    if reply.reason != "NotFound":
                        self.recorder.event(
                            owner, "Warning", "FailedDelete", f"Error deleting: {reply.message}"
                        )
                on_reply(reply)

            self.client.call(self.client.request("delete", "pods", meta["namespace"], meta["name"]), settled)

        return send


def owner_ref(env: Env, resource: str, owner: Obj) -> Obj:
    """The controller reference to an owner of a resource."""
    kind = env.scheme.resource(resource)
    return controller_ref(kind.api_version, kind.kind, owner)
