"""The node's lease: created once, renewed for ever.

Turns time into PUTs of one Lease object: a steady node costs one kernel event and one request per renewal.

Mirrors  component-helpers apimachinery/lease/controller.go (v1.25): renewal every quarter of the duration plus up
         to 4 %, counted from the end of the last one; five immediate tries, then the lease is read for five more (for the only
         five, where it is not known yet); a conflict reads the lease again;
         creation backs off 0.2 s doubling to 7, but while there is no Node to own it, it waits for the next renewal.
"""

from __future__ import annotations

from typing import Protocol

from actors.node.requests import Api, HeartbeatCaller
from sim.api.types import NOT_FOUND, Obj, Reply
from sim.client.fast.lease_renewal import ALIGNED, Rhythm
from sim.kernel.actor import Context
from sim.options.node_agent import NodeAgentOptions
from sim.units import MS, SECOND, format_micro_time

TRIES = 5  # controller.go: maxUpdateRetries
BACKOFF_US = 100 * MS
BACKOFF_MAX_US = 7 * SECOND
RENEW_SHARE = 4  # nodeLeaseRenewIntervalFraction 0.25
JITTER_PERCENT = 4  # leaseJitter 0.04


class Owner(Protocol):
    """What the lease needs of its agent."""

    def node_uid(self) -> str:
        """The Node's uid, "" while it is not known."""
        ...

    def troubled(self) -> None:
        """The API was not reached: what it holds of the node is not known."""
        ...


class Leases:
    """One agent's lease.  `healthy`: the last renewal succeeded."""

    __slots__ = (
        "_api", "_backoff_us", "_beat", "_ctx", "_duration_s", "_lease", "_name", "_owner", "_period_us", "_tries",
        "_version", "healthy",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        clients: tuple[Api, HeartbeatCaller],
        name: str,
        options: NodeAgentOptions,
        owner: Owner,
        jitter: bool = True,
    ) -> None:
        self._ctx = ctx
        self._api, client = clients
        self._name = name
        self._duration_s = options.node_lease_duration_s
        self._period_us = self._duration_s * SECOND // RENEW_SHARE
        self._owner = owner
        jitter_us = self._period_us * JITTER_PERCENT // 100 if jitter else ALIGNED
        rhythm = Rhythm(self._period_us, jitter_us, ctx.stream("lease").getrandbits(64))
        self._lease: Obj | None = None
        self._backoff_us = BACKOFF_US
        self._tries = 0
        self._version = self._api.coordination + "/v1"
        self._beat = client.heartbeat(
            "leases", self._api.lease_namespace, name, ("spec", "renewTime"), rhythm, self._sync
        )
        self.healthy = False

    def start(self) -> None:
        self._sync()

    def _sync(self) -> None:
        self._tries = 0
        renewed = self._beat.taken()
        if renewed is not None:  # its object is made only now that somebody wants it
            self._lease = renewed.obj
        if self._lease is not None:
            self._renew()
        else:
            self._tries = TRIES  # those that come before it is read
            self._begin_ensuring()

    # --- read or create -----------------------------------------------------------------------------------

    def _begin_ensuring(self) -> None:
        self._backoff_us = BACKOFF_US
        self._ensure()

    def _ensure(self, _: object = None) -> None:
        self._api.get_lease(self._name, self._got)

    def _got(self, reply: Reply) -> None:
        if reply.ok:
            self._lease = reply.obj
            self._renew()
        elif reply.code == NOT_FOUND:
            self._api.get_node(self._name, False, self._owned)
        else:
            self._again()

    def _owned(self, reply: Reply) -> None:
        """There is no lease.  Quirk: nor will there be one before the next renewal is due, if its Node cannot be read."""
        if reply.ok:
            self._api.create_lease(self._new_lease(reply.obj), self._created)
        else:
            self._lease = None
            self._done(reply.code == NOT_FOUND)

    def _created(self, reply: Reply) -> None:
        if reply.ok:
            self._lease = reply.obj
            self._done(True)
        else:
            self._again()

    def _again(self) -> None:
        self._backoff_us = min(2 * self._backoff_us, BACKOFF_MAX_US)
        self._ctx.call_later_us(self._backoff_us, self._ensure)

    # --- renew --------------------------------------------------------------------------------------------

    def _renewed_lease(self, base: Obj) -> Obj:
        lease = {**base, "spec": {**base["spec"], "renewTime": format_micro_time(self._ctx.wall_us())}}
        uid = self._owner.node_uid()
        if uid and not base["metadata"].get("ownerReferences"):
            lease["metadata"] = {**base["metadata"], "ownerReferences": self._owners(uid)}
        return lease

    def _new_lease(self, node: Obj) -> Obj:
        return {
            "apiVersion": self._version,
            "kind": "Lease",
            "metadata": {
                "name": self._name,
                "namespace": self._api.lease_namespace,
                "ownerReferences": self._owners(node["metadata"]["uid"]),
            },
            "spec": {
                "holderIdentity": self._name,
                "leaseDurationSeconds": self._duration_s,
                "renewTime": format_micro_time(self._ctx.wall_us()),
            },
        }

    def _owners(self, uid: str) -> list[Obj]:
        return [{"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": uid}]

    def _renew(self) -> None:
        assert self._lease is not None
        self._api.update_lease(self._renewed_lease(self._lease), self._updated)

    def _updated(self, reply: Reply) -> None:
        if reply.ok:
            self._lease = reply.obj
            self._done(True)
            return
        if self.healthy:
            self.healthy = False
            self._owner.troubled()
        self._tries += 1
        if self._tries == 2 * TRIES:  # five, and five more with the lease that was read after them
            self._done(False)
        elif reply.reason == "Conflict" or self._tries == TRIES:
            self._begin_ensuring()
        else:
            self._renew()

    def _done(self, healthy: bool) -> None:
        self.healthy = healthy
        self._beat.schedule()
