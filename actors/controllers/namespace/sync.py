"""One attempt to empty a namespace as steps: the order of requests, what follows an answer.  Pure.

Turns a namespace that is being deleted and the answers to requests into the next action.

Holds: a namespace is finalized only after a list of each resource was empty; an attempt deletes the
       objects of each namespaced resource once.

Mirrors  kubernetes v1.25 pkg/controller/namespace/deletion/namespaced_resources_deleter.go.
Differs  Resources are processed in the order of the scheme (upstream: any order).  Discovery is one
         list of the APIServices, and the documents of those that other servers answer: a group
         version fails while its server is unavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from actors.controllers.namespace.decide import (
    Leftover,
    conditions_of,
    leftover,
    pods_estimate_s,
    unavailable_groups,
    with_conditions,
)
from actors.controllers.shared.aggregated_resources import delegated_among, resources_in
from actors.controllers.shared.steps import Answer, Get, T, Update
from sim.api.aggregation.delegation import Delegated, discovery_failure
from sim.api.schema.resource import Resource
from sim.api.types import Obj, Reply
from sim.dataclass import dataclass
from sim.units import SECOND, format_time

NAMESPACES, API_SERVICES = "namespaces", "apiservices"
CONFLICT_TRIES = 100  # upstream's retryOnConflictError has no bound; more would be a bug of the API
UNSUPPORTED = ("NotFound", "MethodNotAllowed")  # the server has no such operation


@dataclass(frozen=True, slots=True)
class List:
    """List the metadata of objects.  namespace: "" for those of the cluster"""

    resource: Resource | str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class ListPods:
    """List the pods of a namespace in full."""

    resource: Resource
    namespace: str


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """Read the discovery document of a group version that another server answers."""

    delegated: Delegated


@dataclass(frozen=True, slots=True)
class RemoveAll:
    """Delete all objects of a resource with one request, their dependents after them."""

    resource: Resource
    namespace: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete an object, its dependents after it."""

    resource: Resource
    namespace: str
    name: str


Action = Get | Update | List | ListPods | ReadDocument | RemoveAll | Remove
Steps = Generator[Action, Answer, T]


class Seen(NamedTuple):
    """What an attempt sees besides the answers.

    finalizer: the finalizer of this controller
    resources: returns the namespaced resources that this cluster serves itself, as known now
    """

    finalizer: str
    resources: Callable[[], Sequence[Resource]]


class Outcome(NamedTuple):
    """The end of an attempt.  wait_us: delay until the next one, None if none is needed"""

    error: str = ""
    wait_us: int | None = None


def empty_namespace(name: str, seen: Seen) -> Steps[Outcome]:
    """One attempt to delete everything in a namespace and then to finalize it."""
    return _Attempt(name, seen).run()


class _Attempt:
    """One attempt.  wall_us: the time of the last answer"""

    wall_us: int

    def __init__(self, name: str, seen: Seen) -> None:
        self.name, self.seen = name, seen

    def _ask(self, action: Action) -> Steps[Reply]:
        reply, self.wall_us = yield action
        return reply

    def run(self) -> Steps[Outcome]:
        reply = yield from self._ask(Get(NAMESPACES, "", self.name))
        if reply.ok:
            reply = yield from self._update(reply.obj, _terminating, "status")
        if not reply.ok:
            return Outcome("" if reply.reason == "NotFound" else reply.message)
        namespace = reply.obj
        if "deletionTimestamp" not in namespace["metadata"] or not namespace["spec"].get("finalizers"):
            return Outcome()
        listed = yield from self._ask(List(API_SERVICES))
        if not listed.ok:
            return Outcome(listed.message)
        own = self.seen.resources()
        elsewhere, failing = yield from self._discover([item.obj for item in listed.items or ()], own)
        left: list[Leftover] = []
        for resource in (*own, *elsewhere):
            left.append((yield from self._empty(namespace, resource)))
        changed = with_conditions(namespace, conditions_of(left, failing), format_time(self.wall_us))
        if changed is not None:
            yield from self._ask(Update(NAMESPACES, changed, "status"))
        errors = [discovery_failure(failing)] if failing else []
        errors += [entry.error for entry in left if entry.error]
        if errors:
            return Outcome("; ".join(errors))
        estimate_s = max(entry.estimate_s for entry in left)
        if estimate_s:
            return Outcome(wait_us=(estimate_s // 2 + 1) * SECOND)
        # Quirk: the first try uses the object as it was before its conditions were written.
        reply = yield from self._update(namespace, self._finalized, "finalize")
        return Outcome("" if reply.reason == "NotFound" else reply.message)

    def _discover(
        self, api_services: Sequence[Obj], own: Sequence[Resource]
    ) -> Steps[tuple[list[Resource], list[str]]]:
        """The resources of other servers, and the group versions that discovery cannot read."""
        unavailable = unavailable_groups(api_services)
        documents: list[tuple[Delegated, Reply]] = []
        for each in delegated_among(api_services):
            if each.group_version not in unavailable:
                documents.append((each, (yield from self._ask(ReadDocument(each)))))
        found, failing = resources_in(documents, {resource.group_resource for resource in own})
        deletable = [each for each in found if each.namespaced and "delete" in each.verbs]
        return deletable, [*unavailable, *failing]

    # --- the namespace ----------------------------------------------------------------------------

    def _update(self, namespace: Obj, change: Callable[[Obj], Obj | None], subresource: str) -> Steps[Reply]:
        """Update the namespace; after a conflict, retry on the newest object.

        change: returns the changed object, None if the object needs no change
        """
        reply = Reply(200, body=namespace)
        for _ in range(CONFLICT_TRIES):
            changed = change(reply.obj)
            if changed is None:
                break
            reply = yield from self._ask(Update(NAMESPACES, changed, subresource))
            if reply.reason != "Conflict":
                break
            reply = yield from self._ask(Get(NAMESPACES, "", self.name))
            if not reply.ok:
                break
            if reply.obj["metadata"]["uid"] != namespace["metadata"]["uid"]:
                return Reply(0, lost="namespace uid has changed across retries")
        return reply

    def _finalized(self, namespace: Obj) -> Obj:
        """The namespace without the controller's finalizer in its spec."""
        others = {*(namespace["spec"].get("finalizers") or ())} - {self.seen.finalizer}
        return {**namespace, "spec": {**namespace["spec"], "finalizers": sorted(others)}}

    # --- one resource -----------------------------------------------------------------------------

    def _empty(self, namespace: Obj, resource: Resource) -> Steps[Leftover]:
        """Delete all objects of one resource and list what remains."""
        label = f"{resource.plural}.{resource.group}"
        estimate_s = 0
        if resource.kind == "Pod" and not resource.group:
            reply = yield from self._ask(ListPods(resource, self.name))
            if not reply.ok:
                return Leftover(label, error=reply.message)
            pods = [item.obj for item in reply.items or ()]
            estimate_s = pods_estimate_s(pods, namespace["metadata"]["deletionTimestamp"], self.wall_us)
        error = yield from self._delete_all(resource)
        if error:
            return Leftover(label, estimate_s=estimate_s, error=error)
        if "list" not in resource.verbs:
            return Leftover(label, estimate_s=estimate_s)
        reply = yield from self._ask(List(resource, self.name))
        if not reply.ok:
            return Leftover(label, estimate_s=estimate_s, error=_failure(reply))
        gvr = f"{resource.group}/{resource.version}, Resource={resource.plural}"
        return leftover(label, [item.obj for item in reply.items or ()], estimate_s, self.name, gvr)

    def _delete_all(self, resource: Resource) -> Steps[str]:
        """Delete all objects of one resource; returns an error text, "" if all requests succeeded."""
        if "deletecollection" in resource.verbs:
            reply = yield from self._ask(RemoveAll(resource, self.name))
            if reply.reason not in UNSUPPORTED:
                return "" if reply.ok else reply.message
        if "list" not in resource.verbs:
            return ""
        listed = yield from self._ask(List(resource, self.name))
        if not listed.ok:
            return _failure(listed)
        for item in listed.items or ():
            reply = yield from self._ask(Remove(resource, self.name, item.obj["metadata"]["name"]))
            if not reply.ok and reply.reason not in UNSUPPORTED:
                return reply.message
        return ""


def _terminating(namespace: Obj) -> Obj | None:
    """The namespace with the phase Terminating; None if it has it or is not being deleted."""
    status = namespace["status"]
    if status.get("phase") == "Terminating" or "deletionTimestamp" not in namespace["metadata"]:
        return None
    return {**namespace, "status": {**status, "phase": "Terminating"}}


def _failure(reply: Reply) -> str:
    """The error text of a reply, "" if the server has no such operation."""
    return "" if reply.reason in UNSUPPORTED else reply.message
