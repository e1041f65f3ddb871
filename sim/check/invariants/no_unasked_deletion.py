"""The invariant `no-unasked-deletion`: nothing is deleted without a reason.

A deletion is asked for if one of these is true of it:

- a user does it;
- the chain of its causes has a step of the timeline, or begins with a write of a user, which is
more
  than the creation of the object or of its owners: what made an object is no reason to delete it;
- a rule of lifetime ends it: an expiry, the limits of CronJobs and of finished Jobs and pods, the
end
  of a Job, an autoscaler, a scheduler that preempts;
- its owner or its namespace is gone or is being deleted, which was judged by itself.

The garbage collector and the controller of namespaces have no other reason than the last; the chain
of their causes is none.
"""

from __future__ import annotations

from typing import ClassVar

from sim.api.scheme.scheme import Scheme
from sim.api.store import Change, path_of
from sim.api.types import Obj
from sim.check.expect import Spec
from sim.check.invariants.base import Invariant
from sim.check.world import World, split_key
from sim.check.writes import listed, written_resources
from sim.ident import Names
from sim.verdict import Verdict

COLLECTOR, NAMESPACES = "generic-garbage-collector", "namespace-controller"
# Controllers that delete by rules of lifetime.
LIFETIMES = (
    "ttl-after-finished-controller",
    "cronjob-controller",
    "job-controller",
    "token-cleaner",
    "certificate-controller",
    "storage-version-garbage-collector",
)
DERIVED = ("endpoints", "endpointslices")  # what a controller derives from other objects
FINISHED = ("Succeeded", "Failed")


class NoUnaskedDeletion(Invariant):
    """No object is deleted without a reason: a user, a step, a rule of lifetime, or its owner's
    end.

    The chain of causes of each deletion has to have a step, or to begin with a write of a user,
    other than the creation of the object or of its owners. The garbage collector needs an owner
    that is gone or being deleted, and the controller of namespaces a namespace that is. Jobs,
    CronJobs, expiries, autoscalers and finished pods end by their own rules. Endpoints and
    EndpointSlices are not judged.
    """

    name_in_file = "no-unasked-deletion"
    example: ClassVar[str] = "{name: nothing is deleted unasked, invariant: no-unasked-deletion}"
    needs_origins = True

    def __init__(self, spec: Spec, names: Names) -> None:
        scheme = Scheme(names)
        self._plurals = {(one.group, one.kind): one.plural for one in scheme.resources}
        self._live: dict[str, bool] = {}  # by uid: True while it is not being deleted
        self._namespaces: dict[str, bool] = {}
        super().__init__(spec, names)

    def reset(self) -> None:
        """Forget the breaches; what exists stays known."""
        super().reset()
        self._unasked: dict[str, str] = {}  # the deleting user, by key

    def resources(self) -> frozenset[str]:
        """All resources."""
        return written_resources(self.names)

    def take(self, world: World, resource: str, change: Change) -> None:
        """Note what exists, and judge a deletion when it begins."""
        meta = change.item.obj["metadata"]
        goes = change.deleted or "deletionTimestamp" in meta
        if (uid := meta.get("uid")) is not None:
            if change.deleted:
                self._live.pop(uid, None)
            else:
                self._live[uid] = not goes
        if resource == "customresourcedefinitions":
            spec = change.item.obj["spec"]
            self._plurals[spec["group"], spec["names"]["kind"]] = spec["names"]["plural"]
        if resource == "namespaces":
            self._namespaces[meta["name"]] = not goes
        before = change.prev is not None and "deletionTimestamp" in change.prev.obj["metadata"]
        if goes and not before and self.in_window(change.at_us) and resource not in DERIVED:
            self._judge_one(world, change)

    def _judge_one(self, world: World, change: Change) -> None:
        origins = world.origins
        if origins is None or origins.last != change.cause:
            return
        user = origins.writer[0]
        if self._is_asked(world, change, user, change.item.obj):
            return
        self.note(change.at_us, change.item.key, change.item.rev)
        self._unasked.setdefault(change.item.key, user.rpartition(":")[2])

    def _is_asked(self, world: World, change: Change, user: str, obj: Obj) -> bool:
        meta, origins = obj["metadata"], world.origins
        account = user.rpartition(":")[2]
        if account == COLLECTOR:
            owners = meta.get("ownerReferences") or ()
            return any(not self._live.get(owner["uid"], False) for owner in owners)
        if account == NAMESPACES:
            return not self._namespaces.get(meta.get("namespace", ""), False)
        if not user.startswith("system:") or account in LIFETIMES:
            return True
        if (obj.get("status") or {}).get("phase") in FINISHED or user == self.names.user_scheduler:
            return True
        if user.startswith("system:node:"):  # its mirror pods
            return True
        assert origins is not None
        writer, verb, key = origins.first_write(change.cause)
        if key and verb == "create" and not origins.is_unknown(change.cause):
            new = split_key(key) in self._origin_keys(world, change)
            return not new and self._has_reason(world, change, writer)
        return self._has_reason(world, change, writer)

    def _has_reason(self, world: World, change: Change, writer: str) -> bool:
        origins = world.origins
        assert origins is not None
        return origins.is_reasoned(change.cause) or (bool(writer) and not writer.startswith("system:"))

    def _origin_keys(self, world: World, change: Change) -> list[tuple[str, str, str]]:
        """Resource, namespace and name of an object and of its owners."""
        own = split_key(change.item.key)
        owners = world.references(change.item.obj)
        kinds = (((one["apiVersion"].rpartition("/")[0], one["kind"]), one["name"]) for one in owners)
        return [own, *((self._plurals.get(kind, ""), own[1], name) for kind, name in kinds)]

    def at_fault(self) -> tuple[str, ...]:
        """What was deleted."""
        return tuple(self._unasked)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on all deletions."""
        if never := self.unopened("never"):
            return never
        if not self._unasked:
            return self.kept("never", "never")
        parts = [f"{path_of(key)} by {user}" for key, user in self._unasked.items()]
        return self.broken(listed(parts), "never", (float(len(parts)),))
