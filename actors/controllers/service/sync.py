"""Syncs of services, and of the nodes behind a load balancer, as steps.  Pure.

Turns a service, the nodes and the answers of the cloud and of the API into the next action.

Holds: a service keeps its finalizer until the cloud has deleted its load balancer; its addresses
       are written after all else.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/controllers/service/controller.go
         (syncService, processServiceCreateOrUpdate, processServiceDeletion,
         syncLoadBalancerIfNeeded, lockedUpdateLoadBalancerHosts),
         cloud-provider/service/helpers (AddFinalizer, PatchService).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

from actors.controllers.service.decide import needs_cleanup, wants_balancer
from actors.controllers.shared.cloud import Balancer, Refused
from actors.controllers.shared.steps import Event, T
from sim.api.objects import get_in
from sim.api.types import Obj, Reply
from sim.client.events.recorder import EventKind
from sim.dataclass import dataclass

Occasion = tuple[EventKind, str, str]
NO_NODES: Occasion = ("Warning", "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
UPDATED: Occasion = ("Normal", "UpdatedLoadBalancer", "Updated load balancer with new hosts")
DELETING: Occasion = ("Normal", "DeletingLoadBalancer", "Deleting load balancer")
DELETED: Occasion = ("Normal", "DeletedLoadBalancer", "Deleted load balancer")


@dataclass(frozen=True, slots=True)
class Patch:
    """Patch a service by its status subresource."""

    service: Obj
    patch: Obj


@dataclass(frozen=True, slots=True)
class Find:
    """Ask the cloud for the load balancer of a service."""

    service: Obj


@dataclass(frozen=True, slots=True)
class Ensure:
    """Have the cloud make or change the load balancer of a service."""

    service: Obj
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Have the cloud change the nodes behind the load balancer of a service."""

    service: Obj
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Have the cloud delete the load balancer of a service."""

    service: Obj


@dataclass(frozen=True, slots=True)
class Follow:
    """Let a trace record explain the work from here on."""

    cause: int


@dataclass(frozen=True, slots=True)
class Explain:
    """Keep what explains the present work for the later tries of a service, or forget it."""

    key: str
    is_kept: bool


Action = Patch | Find | Ensure | Move | Remove | Follow | Explain | Event
Answer = Reply | Balancer | Refused | None
Steps = Generator[Action, Answer, T]


class Seen(NamedTuple):
    """What syncs see besides the service and the answers.

    nodes: the nodes behind load balancers, at the moment of the decision
    """

    finalizer: str
    nodes: Callable[[], tuple[str, ...]]


class Syncs:
    """The syncs of one process.  known: the services that have been synced, as they were then"""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self.known: dict[str, Obj] = {}

    def sync(self, key: str, service: Obj | None) -> Steps[str | None]:
        """The sync of a service; None: it is gone.  Returns an error text or None."""
        known = self.known.get(key)
        if service is None:
            return (yield from self._deleted(key))
        if known is not None and known["metadata"]["uid"] != service["metadata"]["uid"]:
            error = yield from _delete(known)
            if error is not None:
                return error
        self.known[key] = service
        wanted = wants_balancer(service) and not needs_cleanup(service, self._seen.finalizer)
        error = yield from (self._ensure(service) if wanted else self._clean(service))
        if error is not None:
            text = f"Error syncing load balancer: {error}"
            yield Event(service, "Warning", "SyncLoadBalancerFailed", text)
            yield Explain(key, True)
        elif not wanted:
            del self.known[key]
            yield Explain(key, False)
        return error

    def _deleted(self, key: str) -> Steps[str | None]:
        """Delete the load balancer of a service that went without its finalizer."""
        known = self.known.get(key)
        error = None if known is None else (yield from _delete(known))
        if error is None:
            self.known.pop(key, None)
        return error

    def _holds(self, service: Obj) -> bool:
        """True if a service has the finalizer."""
        return self._seen.finalizer in (service["metadata"].get("finalizers") or ())

    def _clean(self, service: Obj) -> Steps[str | None]:
        found = yield Find(service)
        if isinstance(found, Refused):
            error = yield from _error(found)
            return f"failed to check if load balancer exists before cleanup: {error}"
        if found is not None:
            yield Event(service, *DELETING)
            refused = yield Remove(service)
            if isinstance(refused, Refused):
                return f"failed to delete load balancer: {yield from _error(refused)}"
        if self._holds(service):
            change = {"$deleteFromPrimitiveList/finalizers": [self._seen.finalizer]}
            refusal = yield from _patch(service, {"metadata": change})
            if refusal is not None:
                return f"failed to remove load balancer cleanup finalizer: {refusal}"
        yield Event(service, *DELETED)
        return (yield from _show(service, ()))

    def _ensure(self, service: Obj) -> Steps[str | None]:
        yield Event(service, "Normal", "EnsuringLoadBalancer", "Ensuring load balancer")
        if not self._holds(service):
            error = yield from _patch(service, {"metadata": {"finalizers": [self._seen.finalizer]}})
            if error is not None:
                return f"failed to add load balancer cleanup finalizer: {error}"
        nodes = self._seen.nodes()
        if not nodes:
            yield Event(service, *NO_NODES)
        made = yield Ensure(service, nodes)
        if isinstance(made, Refused):
            return f"failed to ensure load balancer: {yield from _error(made)}"
        assert isinstance(made, Balancer)
        yield Event(service, "Normal", "EnsuredLoadBalancer", "Ensured load balancer")
        return (yield from _show(service, made.ingress))

    def move(self, service: Obj) -> Steps[str | None]:
        """Give the present nodes to the load balancer of a service; returns an error text or None."""
        nodes = self._seen.nodes()
        refused = yield Move(service, nodes)
        if not isinstance(refused, Refused):
            yield Event(service, *(UPDATED if nodes else NO_NODES))
            return None
        error = yield from _error(refused)
        if (yield Find(service)) is None:
            return None
        text = f"Error updating load balancer with new hosts [{' '.join(nodes)}]: {error}"
        yield Event(service, "Warning", "UpdateLoadBalancerFailed", text)
        return error


def _delete(service: Obj) -> Steps[str | None]:
    """Delete the load balancer of a service that is gone; returns an error text or None."""
    if not wants_balancer(service):
        return None
    yield Event(service, *DELETING)
    refused = yield Remove(service)
    if isinstance(refused, Refused):
        error = yield from _error(refused)
        text = f"Error deleting load balancer: {error}"
        yield Event(service, "Warning", "DeleteLoadBalancerFailed", text)
        return error
    yield Event(service, *DELETED)
    return None


def _show(service: Obj, ingress: tuple[str, ...]) -> Steps[str | None]:
    """Write the addresses of a load balancer into the status of its service."""
    wanted = [{"ip": address} for address in ingress]
    if get_in(service, ("status", "loadBalancer", "ingress"), []) == wanted:
        return None
    error = yield from _patch(service, {"status": {"loadBalancer": {"ingress": wanted or None}}})
    return None if error is None else f"failed to update load balancer status: {error}"


def _patch(service: Obj, patch: Obj) -> Steps[str | None]:
    """Patch a service; an absent service is no error for its status."""
    reply = yield Patch(service, patch)
    assert isinstance(reply, Reply)
    gone = reply.reason == "NotFound" and "status" in patch
    return None if reply.ok or gone else reply.message


def _error(refused: Refused) -> Steps[str]:
    """The text of a refusal; what led to it explains the work from here on."""
    if refused.cause:
        yield Follow(refused.cause)
    return refused.text
