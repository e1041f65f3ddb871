"""What both endpoint loops share: which Services a pod event concerns, ports, addresses, trigger times.

Turns pod events into keys of Services (`ServicePods`), a Service's ports into a pod's, and what changed since
the last sync into `last-change-trigger-time` (`TriggerTimes`).

Holds: a pod event in a cluster of many Services costs one look-up per label of the pod; what a loop says of a
pod is worked out once per pod object.

Mirrors  kubernetes v1.25 pkg/controller/util/endpoint/{controller_utils.go,trigger_time_tracker.go},
         pkg/controller/endpoint/endpoints_controller.go (addresses), pkg/api/v1/pod/util.go (FindPort).
Differs  Services are found by an index on one pair of their selector; upstream caches selectors and tries all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from actors.controllers.pod_owners import (
    LABEL_INDEX,
    befell,
    for_last_pair,
    index_by_labels,
    index_by_namespace,
    pair_of,
    ready_changed,
)
from sim.client.digests import Digests
from sim.machinery.api import Obj
from sim.machinery.identity import IdentityMemo
from sim.machinery.objects import TERMINAL, condition_of, is_deleting, key_of
from sim.units import format_time, parse_time

if TYPE_CHECKING:
    from sim.client import Informer, WorkQueue

View = TypeVar("View")
SELECTOR_INDEX = "selector-pair"


def is_selecting(service: Obj) -> bool:
    """Whether its endpoints are pods."""
    return bool(service["spec"].get("selector"))


def selector_values(service: Obj) -> tuple[str, ...]:
    """One pair of the selector, with the namespace; none for a Service without selector."""
    selector = service["spec"].get("selector")
    if not selector:
        return ()
    return (pair_of(service["metadata"]["namespace"], selector),)


def _matches(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return all(labels.get(k) == v for k, v in selector.items())


@for_last_pair
def endpoint_changed(old: Obj, new: Obj) -> tuple[bool, bool]:
    """(what an endpoint shows changed, labels or host names changed)."""
    before, after = old["metadata"], new["metadata"]
    had, has = before.get("labels"), after.get("labels")
    labels = had is not has and had != has
    if not labels and old["spec"] is not new["spec"]:
        labels = any(old["spec"].get(part) != new["spec"].get(part) for part in ("hostname", "subdomain"))
    if is_deleting(new) or is_deleting(old):
        # Quirk: upstream compares the two timestamps by pointer, so any update of a deleting pod counts
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
    """Pod handlers of a loop over Services."""

    def __init__(self, services: Informer, pods: Informer, queue: WorkQueue, batch_us: int) -> None:
        self._services = services
        self._pods = pods
        self._queue = queue
        self._batch_us = batch_us
        self._views: dict[str, tuple[Obj, Digests[Any]]] = {}
        index_by_namespace(services)
        services.add_index(SELECTOR_INDEX, selector_values, ("spec", "selector"))
        index_by_labels(pods)
        self._chosen: IdentityMemo[dict[str, list[str]]] = IdentityMemo()
        self._none = True  # no Service selects pods: none concerns any
        services.on(add=self._forget_chosen, update=self._selector_changed, delete=self._forget_chosen)
        pods.on(add=self._changed, update=self._updated, delete=self._changed)

    def _forget_chosen(self, _: Obj) -> None:
        self._chosen = IdentityMemo()
        self._none = not any(selector_values(service) for service in self._services.objects.values())

    def _selector_changed(self, old: Obj, new: Obj) -> None:
        if old["spec"].get("selector") is not new["spec"].get("selector"):
            self._forget_chosen(new)

    def services_of(self, pod: Obj) -> list[str]:
        """Keys of the Services that select a pod; worked out once per labels object and namespace."""
        labels, namespace = pod["metadata"].get("labels"), pod["metadata"]["namespace"]
        if not labels:
            return []
        chosen = self._chosen.get(labels)
        if chosen is None:
            chosen = self._chosen.put({}, labels)
        keys = chosen.get(namespace)
        if keys is None:
            keys = chosen[namespace] = [
                key_of(service)
                for k, v in labels.items()
                for service in self._services.by_index(SELECTOR_INDEX, f"{namespace}/{k}={v}")
                if _matches(service["spec"]["selector"], labels)
            ]
        return keys

    def views(self, service: Obj, make: Callable[[Obj, Obj], View]) -> list[View]:
        """What `make(pod, service)` says of each pod that the Service selects, in order of arrival.

        Made once per state of a pod: a Service of a thousand pods is looked at anew for each of them.
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
        self._views.pop(key, None)

    def blame(self) -> None:
        """To be called before the first sync: what it finds to write may have befallen pods that were listed before Services."""
        for service in self._services.list():
            for value in selector_values(service):
                found = self._pods.items_by_index(LABEL_INDEX, value)
                befallen = befell(self._queue, self._pods, found, service["metadata"]["namespace"])
                self._queue.blame(key_of(service), befallen)

    def _queue_all(self, keys: Sequence[str]) -> None:
        for key in keys:
            if self._batch_us:
                self._queue.add_after_us(key, self._batch_us)
            else:
                self._queue.add(key)

    def _changed(self, pod: Obj) -> None:
        if not self._none:
            self._queue_all(self.services_of(pod))

    def _updated(self, old: Obj, new: Obj) -> None:
        if self._none:
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


class Quiet:
    """What a sync of each Service saw that left nothing to write: while all of that is the same, nothing is to be written."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[object, Sequence[object], object]] = {}

    def note(self, key: str, service: Obj, views: Sequence[object], stored: object) -> None:
        """service and views are taken by identity; stored: what tells which revisions there are"""
        self._seen[key] = (service, views, stored)

    def holds(self, key: str, service: Obj, views: Sequence[object], stored: object) -> bool:
        seen = self._seen.get(key)
        if seen is None or seen[0] is not service or seen[2] != stored or len(seen[1]) != len(views):
            return False
        return all(map(is_, seen[1], views))

    def forget(self, key: str) -> None:
        self._seen.pop(key, None)


# --- one pod ------------------------------------------------------------------------------------------------


def belongs(pod: Obj, with_terminating: bool) -> bool:
    """Whether a selected pod is an endpoint at all: it has an address, and is neither finished nor going."""
    status = pod.get("status", {})
    if status.get("phase") in TERMINAL or not (status.get("podIP") or status.get("podIPs")):
        return False
    return with_terminating or not is_deleting(pod)


def pod_ips(pod: Obj) -> list[str]:
    status = pod.get("status", {})
    ips = [entry["ip"] for entry in status.get("podIPs") or ()]
    return ips or [status["podIP"]]


def is_ipv6(ip: str) -> bool:
    return ":" in ip


def publishes_unready(service: Obj) -> bool:
    return bool(service["spec"].get("publishNotReadyAddresses"))


def is_headless(service: Obj) -> bool:
    """No cluster IP: "None", or none given."""
    return service["spec"].get("clusterIP", "") in ("", "None")


def find_port(pod: Obj, port: Obj) -> int | None:
    """The number of a Service port in this pod; None where a named target is not there."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target or int(port["port"])
    for container in pod["spec"].get("containers") or ():
        for entry in container.get("ports") or ():
            if entry.get("name") == target and entry.get("protocol", "TCP") == port.get("protocol", "TCP"):
                return int(entry["containerPort"])
    return None


def host_name(pod: Obj, service: Obj) -> str:
    spec = pod["spec"]
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        return str(spec["hostname"])
    return ""


def target_ref(pod: Obj) -> Obj:
    meta = pod["metadata"]
    return {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}


# --- trigger times ------------------------------------------------------------------------------------------


def trigger_us(pod: Obj) -> int:
    """When readiness changed last; 0: not told."""
    condition = condition_of(pod, "Ready")
    text = condition.get("lastTransitionTime") if condition is not None else None
    return parse_time(text) if text else 0


class TriggerTimes:
    """Since when what a sync is about to write is true, per Service."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, dict[str, int]]] = {}

    def forget(self, key: str) -> None:
        self._known.pop(key, None)

    def compute(self, service: Obj, times: dict[str, int]) -> str | None:
        """The earliest change not told yet (`times`: by pod); a Service seen first tells its creation."""
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
