"""The node's lease: created once, then renewed periodically.

Turns time into updates of one Lease object: a steady node costs one kernel event and one request
per renewal.

Mirrors  component-helpers apimachinery/lease/controller.go (v1.25): renewal every quarter of the
         duration plus up to 4 %, counted from the end of the last one; five immediate attempts,
         then a read of the lease and five more (without a known lease, the first five are left
         out); a conflict reads the lease again; creation backs off 0.2 s doubling to 7 s, but
         without a Node to own the lease it waits for the next renewal.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.node.requests import Api, OnReply
from sim.api.types import NOT_FOUND, Obj, Reply, Request
from sim.client.client import Client
from sim.client.fast.lease_renewal import ALIGNED, Rhythm
from sim.kernel.actor import Context
from sim.options.node.agent import NodeAgentOptions
from sim.units import MS, SECOND, format_micro_time

TRIES = 5  # controller.go: maxUpdateRetries
BACKOFF_US = 100 * MS
BACKOFF_MAX_US = 7 * SECOND
RENEW_SHARE = 4  # nodeLeaseRenewIntervalFraction 0.25
JITTER_PERCENT = 4  # leaseJitter 0.04


class Leases:
    """The lease of one agent incarnation.

    healthy: True if the last renewal succeeded
    _lease: the lease as last written or read; None if it is not known
    _tries: failed attempts of the present renewal
    _beat: the periodic renewal, which may use a fast path
    """

    __slots__ = (
        "_api", "_backoff_us", "_beat", "_ctx", "_duration_s", "_lease", "_name", "_node_uid", "_node_unknown", "_period_us",
        "_tries", "_version", "healthy",
    )  # fmt: skip

    def __init__(
        self,
        ctx: Context,
        clients: tuple[Api, Client],
        name: str,
        options: NodeAgentOptions,
        node_uid: Callable[[], str],
        node_unknown: Callable[[], None],
        jitter: bool = True,
    ) -> None:
        self._ctx = ctx
        self._api, client = clients
        self._name = name
        self._duration_s = options.node_lease_duration_s
        self._period_us = self._duration_s * SECOND // RENEW_SHARE
        self._node_uid, self._node_unknown = node_uid, node_unknown
        jitter_us = self._period_us * JITTER_PERCENT // 100 if jitter else ALIGNED
        rhythm = Rhythm(self._period_us, jitter_us, ctx.stream("lease").getrandbits(64))
        self._lease: Obj | None = None
        self._backoff_us = BACKOFF_US
        self._tries = 0
        self._version = self._api.coordination + "/v1"
        self._beat = client.heartbeat(
            "leases",
            self._api.lease_namespace,
            name,
            ("spec", "renewTime"),
            rhythm,
            self._sync,
            self._composed,
        )
        self.healthy = False

    def start(self) -> None:
        """Read or create the lease at once."""
        self._sync()

    def _sync(self) -> None:
        self._take_up()
        if self._lease is not None:
            self._renew(self._beat.draw)
        else:
            self._tries = TRIES  # the attempts before the first read are left out
            self._begin_ensuring()

    def _take_up(self) -> None:
        """Begin a renewal with the lease as the last one left it."""
        self._tries = 0
        renewed = self._beat.taken()
        if renewed is not None:  # the object of the last renewal is built only when it is needed
            self._lease = renewed.obj

    def _composed(self, wall_us: int) -> tuple[Request, OnReply]:
        """The renewal that was sent when the wall clock showed this time."""
        self._take_up()
        assert self._lease is not None
        return self._api.lease_update(self._renewed_lease(self._lease, wall_us)), self._updated

    # --- read or create ---------------------------------------------------------------------------

    def _begin_ensuring(self) -> None:
        self._backoff_us = BACKOFF_US
        self._ensure()

    def _ensure(self, _: object = None) -> None:
        self._api.get_lease(self._name, self._lease_read)

    def _lease_read(self, reply: Reply) -> None:
        if reply.ok:
            self._lease = reply.obj
            self._renew()
        elif reply.code == NOT_FOUND:
            self._api.get_node(self._name, False, self._node_read)
        else:
            self._retry_later()

    def _node_read(self, reply: Reply) -> None:
        """Create the lease, now that its Node is known.

        Quirk: if the Node cannot be read, no lease is created before the next renewal is due.
        """
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
            self._retry_later()

    def _retry_later(self) -> None:
        self._backoff_us = min(2 * self._backoff_us, BACKOFF_MAX_US)
        self._ctx.call_later_us(self._backoff_us, self._ensure)

    # --- renew ------------------------------------------------------------------------------------

    def _renewed_lease(self, base: Obj, wall_us: int) -> Obj:
        lease = {**base, "spec": {**base["spec"], "renewTime": format_micro_time(wall_us)}}
        uid = self._node_uid()
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

    def _renew(self, draw: int = 0) -> None:
        """Send an update of the lease.

        draw: the random draw of the first attempt; later attempts have their own
        """
        assert self._lease is not None
        renewed = self._renewed_lease(self._lease, self._ctx.wall_us())
        self._api.call(self._api.lease_update(renewed, draw), self._updated)

    def _updated(self, reply: Reply) -> None:
        if reply.ok:
            self._lease = reply.obj
            self._done(True)
            return
        if self.healthy:
            self.healthy = False
            self._node_unknown()
        self._tries += 1
        # Five attempts, and five more with the lease as read after them.
        if self._tries == 2 * TRIES:
            self._done(False)
        elif reply.reason == "Conflict" or self._tries == TRIES:
            self._begin_ensuring()
        else:
            self._renew()

    def _done(self, healthy: bool) -> None:
        self.healthy = healthy
        # A renewal adds the owner of a lease without one, so it then changes more than the time.
        owned = self._lease is not None and bool(self._lease["metadata"].get("ownerReferences"))
        self._beat.schedule(alone=owned)
