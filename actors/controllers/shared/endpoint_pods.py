"""Shared parts of both endpoint controllers: Services of a pod, ports, addresses, trigger times.

Turns pod events into keys of Services (`ServicePods`), a Service's ports into port numbers of a
pod, and changes since the last sync into `last-change-trigger-time` (`TriggerTimes`).

Holds: a pod event costs one index lookup per label of the pod, however many Services there are; a
       pod's contribution to a Service is computed once per revision of the pod.

Mirrors  kubernetes v1.25
         pkg/controller/util/endpoint/{controller_utils.go,trigger_time_tracker.go},
         pkg/controller/endpoint/endpoints_controller.go (addresses), pkg/api/v1/pod/util.go
         (FindPort).
Differs  Services are found by an index on one pair of their selector; upstream caches selectors and
         tries all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from actors.controllers.shared.pod_owners import (
    LABEL_INDEX,
    for_last_pair,
    index_by_labels,
    index_by_namespace,
    latest_cause,
    pair_of,
    ready_changed,
)
from sim.api.memo import IdentityMemo
from sim.api.objects import TERMINAL, condition_of, is_deleting, key_of
from sim.api.types import Obj
from sim.client.cache.derived import Digests
from sim.units import format_time, parse_time

if TYPE_CHECKING:
    from sim.client import Informer, WorkQueue

View = TypeVar("View")
SELECTOR_INDEX = "selector-pair"


def is_selecting(service: Obj) -> bool:
    """True if the Service has a selector, so that controllers write its endpoints."""
    return bool(service["spec"].get("selector"))


def selector_values(service: Obj) -> tuple[str, ...]:
    """Values of a Service in the selector index: one pair of its selector, with the namespace."""
    selector = service["spec"].get("selector")
    if not selector:
        return ()
    return (pair_of(service["metadata"]["namespace"], selector),)


def _matches(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return all(labels.get(k) == v for k, v in selector.items())


@for_last_pair
def endpoint_changed(old: Obj, new: Obj) -> tuple[bool, bool]:
    """(True if the pod's endpoint changed, True if its labels or host name changed)."""
    before, after = old["metadata"], new["metadata"]
    had, has = before.get("labels"), after.get("labels")
    labels = had is not has and had != has
    if not labels and old["spec"] is not new["spec"]:
        labels = any(old["spec"].get(part) != new["spec"].get(part) for part in ("hostname", "subdomain"))
    if is_deleting(new) or is_deleting(old):
        # Quirk: upstream compares the timestamps by pointer, so any update of a deleting pod
        # counts.
        return True, labels
    was, now = old.get("status", {}), new.get("status", {})
    if was is now:
        return False, labels
    ips, conditions = now.get("podIPs"), now.get("conditions")
    changed = ips is not was.get("podIPs") and ips != was.get("podIPs")
    if not changed and conditions is not was.get("conditions"):
        changed = ready_changed(old, new)
    return changed, labels


class ServicePods:
    """Pod handlers of a controller of Services, and the cache of each pod's contribution.

    batch_us: delay between a pod event and the sync of its Services, 0 for none
    """

    def __init__(self, services: Informer, pods: Informer, queue: WorkQueue, batch_us: int) -> None:
        self._services = services
        self._pods = pods
        self._queue = queue
        self._batch_us = batch_us
        self._views: dict[str, tuple[Obj, Digests[Any]]] = {}
        index_by_namespace(services)
        services.add_index(SELECTOR_INDEX, selector_values, ("spec", "selector"))
        index_by_labels(pods)
        self._keys_by_labels: IdentityMemo[dict[str, list[str]]] = IdentityMemo()
        self._no_selectors = True  # no Service has a selector, so pod events need no lookup
        services.on(add=self._forget_keys, update=self._selector_changed, delete=self._forget_keys)
        pods.on(add=self._changed, update=self._updated, delete=self._changed)

    def _forget_keys(self, _: Obj) -> None:
        self._keys_by_labels = IdentityMemo()
        self._no_selectors = not any(selector_values(service) for service in self._services.objects.values())

    def _selector_changed(self, old: Obj, new: Obj) -> None:
        if old["spec"].get("selector") is not new["spec"].get("selector"):
            self._forget_keys(new)

    def services_of(self, pod: Obj) -> list[str]:
        """Keys of the Services that select a pod, computed once per labels object and namespace."""
        labels, namespace = pod["metadata"].get("labels"), pod["metadata"]["namespace"]
        if not labels:
            return []
        keys_by_namespace = self._keys_by_labels.get(labels)
        if keys_by_namespace is None:
            keys_by_namespace = self._keys_by_labels.put({}, labels)
        keys = keys_by_namespace.get(namespace)
        if keys is None:
            keys = keys_by_namespace[namespace] = [
                key_of(service)
                for k, v in labels.items()
                for service in self._services.by_index(SELECTOR_INDEX, f"{namespace}/{k}={v}")
                if _matches(service["spec"]["selector"], labels)
            ]
        return keys

    def views(self, service: Obj, make: Callable[[Obj, Obj], View]) -> list[View]:
        """`make(pod, service)` for each pod that the Service selects, in order of arrival.

        Each result is kept until the pod changes, as a large Service syncs each time one pod does.
        """
        key, spec = key_of(service), service["spec"]
        known = self._views.get(key)
        if known is None or known[0] is not spec:
            selector = spec["selector"]

            def view(pod: Obj) -> View | None:
                return make(pod, service) if _matches(selector, pod["metadata"]["labels"]) else None

            known = self._views[key] = spec, Digests(self._pods, LABEL_INDEX, view)
        return [made for made in known[1].of(selector_values(service)[0]) if made is not None]

    def forget(self, key: str) -> None:
        """Drop the cached contributions to a Service."""
        self._views.pop(key, None)

    def attribute_causes(self) -> None:
        """Attribute each queued Service to the latest change of its pods. Call before the first
        sync.

        Pods may have been listed before Services, so no handler has attributed their changes.
        """
        for service in self._services.list():
            for value in selector_values(service):
                found = self._pods.items_by_index(LABEL_INDEX, value)
                cause = latest_cause(self._queue, self._pods, found, service["metadata"]["namespace"])
                self._queue.add_cause(key_of(service), cause)

    def _queue_all(self, keys: Sequence[str]) -> None:
        for key in keys:
            if self._batch_us:
                self._queue.add_after_us(key, self._batch_us)
            else:
                self._queue.add(key)

    def _changed(self, pod: Obj) -> None:
        if not self._no_selectors:
            self._queue_all(self.services_of(pod))

    def _updated(self, old: Obj, new: Obj) -> None:
        if self._no_selectors:
            return
        labels, keys = new["metadata"].get("labels"), self.services_of(new)
        if labels is old["metadata"].get("labels") and not keys:
            return
        changed, relabelled = endpoint_changed(old, new)
        if not changed and not relabelled:
            return
        if relabelled:
            before = self.services_of(old)
            if changed:
                keys = keys + [key for key in before if key not in keys]
            else:
                keys = [k for k in before if k not in keys] + [k for k in keys if k not in before]
        self._queue_all(keys)


class LastInputs:
    """The inputs of each Service's last sync that found or left everything up to date.

    A sync with equal inputs can be skipped: it would send no write.
    """

    def __init__(self) -> None:
        self._inputs: dict[str, tuple[object, Sequence[object], object]] = {}

    def record(self, key: str, service: Obj, views: Sequence[object], stored: object) -> None:
        """Remember the inputs of a sync.

        service, views: compared by identity later
        stored: a value that is equal as long as the stored slices or Endpoints are the same
        """
        self._inputs[key] = (service, views, stored)

    def unchanged(self, key: str, service: Obj, views: Sequence[object], stored: object) -> bool:
        """True if the inputs are those that were recorded last."""
        last = self._inputs.get(key)
        if last is None or last[0] is not service or last[2] != stored or len(last[1]) != len(views):
            return False
        return all(map(is_, last[1], views))

    def forget(self, key: str) -> None:
        """Drop the inputs of a Service."""
        self._inputs.pop(key, None)


# --- one pod --------------------------------------------------------------------------------------


def belongs(pod: Obj, with_terminating: bool) -> bool:
    """True if a selected pod is an endpoint: it has an address and is neither finished nor
    terminating.

    with_terminating: True to accept terminating pods too
    """
    status = pod.get("status", {})
    if status.get("phase") in TERMINAL or not (status.get("podIP") or status.get("podIPs")):
        return False
    return with_terminating or not is_deleting(pod)


def pod_ips(pod: Obj) -> list[str]:
    """The addresses of a pod that has at least one."""
    status = pod.get("status", {})
    ips = [entry["ip"] for entry in status.get("podIPs") or ()]
    return ips or [status["podIP"]]


def is_ipv6(ip: str) -> bool:
    """True for an IPv6 address."""
    return ":" in ip


def publishes_unready(service: Obj) -> bool:
    """True if the Service publishes pods that are not ready as ready."""
    return bool(service["spec"].get("publishNotReadyAddresses"))


def is_headless(service: Obj) -> bool:
    """True if the Service has no cluster IP: the value is "None" or missing."""
    return service["spec"].get("clusterIP", "") in ("", "None")


def find_port(pod: Obj, port: Obj) -> int | None:
    """The number of a Service port in this pod; None if the pod lacks the named target port."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target or int(port["port"])
    for container in pod["spec"].get("containers") or ():
        for entry in container.get("ports") or ():
            if entry.get("name") == target and entry.get("protocol", "TCP") == port.get("protocol", "TCP"):
                return int(entry["containerPort"])
    return None


def host_name(pod: Obj, service: Obj) -> str:
    """The host name of a pod in the Service's domain, "" if it has none."""
    spec = pod["spec"]
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        return str(spec["hostname"])
    return ""


def target_ref(pod: Obj) -> Obj:
    """The reference to a pod in an endpoint."""
    meta = pod["metadata"]
    return {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}


# --- trigger times --------------------------------------------------------------------------------


def trigger_us(pod: Obj) -> int:
    """The time of the last change of readiness, 0 if unknown."""
    condition = condition_of(pod, "Ready")
    text = condition.get("lastTransitionTime") if condition is not None else None
    return parse_time(text) if text else 0


class TriggerTimes:
    """Computes the last-change-trigger-time of each Service: the earliest change not yet exported."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, dict[str, int]]] = {}

    def forget(self, key: str) -> None:
        """Drop the times of a Service."""
        self._known.pop(key, None)

    def compute(self, service: Obj, times: dict[str, int]) -> str | None:
        """The earliest change since the last call; the creation time at the first call.

        times: pod name -> time of its last change
        """
        key = key_of(service)
        created = service["metadata"].get("creationTimestamp")
        service_us = parse_time(created) if created else 0
        known = self._known.get(key)
        self._known[key] = (service_us, times)
        if known is None:
            return format_time(service_us)
        before_us, before = known
        fresh = [us for name, us in times.items() if us > before.get(name, 0)]
        if service_us > before_us:
            fresh.append(service_us)
        return format_time(min(fresh)) if fresh else None
