"""The requests of a node agent, in callback form.

Turns a read or a write that the agent needs into a request of the node's user and hands it to a
client's `call`. Nothing here retries or keeps state: the reply goes to the caller's callback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sim.api.store import Item
from sim.api.types import EMPTY, Obj, Reply, Request, UserInfo
from sim.client.fast.lease_renewal import Rhythm
from sim.client.fast.read_modify_write import Leg
from sim.ident import Names
from sim.kernel.actor import Context
from sim.kernel.network import Purpose

OnReply = Callable[[Reply], None]
MERGE_PATCH = "application/merge-patch+json"


def user_of(names: Names, node: str) -> UserInfo:
    """The user that a node's agent authenticates as."""
    return UserInfo(names.node_user(node), (names.group_nodes, names.group_authenticated))


class Caller(Protocol):
    """The part of a client that the agent uses."""

    def call(self, request: Request, on_reply: OnReply) -> None:
        """Send a request; the callback gets the reply."""
        ...

    def exchanges(self, resource: str, name: str = "", *, purpose: int = 0) -> Exchanges:
        """Calls about one object of a resource, or about any if no name is given.

        purpose: what the requests are for, which keys their random draws
        """
        ...


class Beat(Protocol):
    """A periodic rewrite of one field, with one kernel event each.

    See `sim.client.fast.lease_renewal`.
    """

    @property
    def lot(self) -> int:
        """The random draw of the rewrite that is planned."""
        ...

    def schedule(self, alone: bool = True) -> None:
        """Plan the next rewrite.

        alone: True if the next rewrite changes nothing but the field
        """
        ...

    def taken(self) -> Item | None:
        """The object as the last rewrite left it; None if no fast path wrote it."""
        ...


class Folded(Protocol):
    """Calls about one object for which a server may have a fast path.

    See `sim.client.fast.coalesced_calls.FoldedCalls`.
    """

    def call(
        self,
        serve: Callable[[Any], tuple[Item, int] | None],
        request: Callable[[], Request],
        on_reply: OnReply,
        timeout_us: int = 0,
        quiet: bool = False,
    ) -> None:
        """Send a call, by the fast path if that is open."""
        ...

    def claim(self) -> bool:
        """True if the last call is over and its reply need not be delivered."""
        ...


class Exchanges(Folded, Protocol):
    """Reads and the writes that follow from them.

    See `sim.client.fast.read_modify_write.Exchange`.
    """

    @property
    def read_us(self) -> int:
        """When the reply to the read under way arrives; `NEVER_US` without one."""
        ...

    def read_modify_write(
        self,
        read: Leg,
        compose: Callable[[Item, int], bool],
        write: Leg,
        told: Callable[[Item, int], None],
    ) -> bool:
        """Read, compose and write; False if the callback of the read continues."""
        ...

    def over(self) -> bool:
        """True if the reply to the last write has arrived."""
        ...

    def plan(self) -> None:
        """Deliver the reply to the call under way as an event."""
        ...


class HeartbeatCaller(Caller, Protocol):
    """The client of heartbeats, which is not rate limited and may use the server's fast paths."""

    def heartbeat(
        self,
        resource: str,
        namespace: str,
        name: str,
        path: tuple[str, ...],
        rhythm: Rhythm,
        missed: Callable[[], None],
        composed: Callable[[int], tuple[Request, OnReply]],
    ) -> Beat:
        """The periodic rewrite of the field at `path`.

        missed: runs when a rewrite needs ordinary requests
        composed: the request that was sent when the wall clock showed a time, and its callback
        """
        ...


class Recorder(Protocol):
    """Records the events of one agent incarnation."""

    def event(
        self,
        obj: Obj,
        event_type: str,
        reason: str,
        message: str,
        *,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Record an event about the object that the reference `obj` names."""
        ...

    def tidy(self) -> None:
        """Release memory that is no longer used."""
        ...


class Clients(Protocol):
    """Makes the API clients and the event recorder of an agent; the composition root provides it."""

    def main(self, ctx: Context, node: str, qps: int, burst: int) -> Caller:
        """The rate-limited client for pods and for the registration of the node."""
        ...

    def heartbeat(self, ctx: Context, node: str, timeout_us: int) -> HeartbeatCaller:
        """The client of heartbeats, which is not rate limited."""
        ...

    def recorder(self, ctx: Context, node: str, qps: int, burst: int) -> Recorder:
        """The recorder of events, which has a rate limit of its own."""
        ...


class Api:
    """Makes and sends the requests of one client."""

    __slots__ = (
        "_agent",
        "_kernel",
        "_patch_type",
        "_user",
        "call",
        "coordination",
        "exchanges",
        "lease_namespace",
        "storage",
    )

    def __init__(self, ctx: Context, client: Caller, user: UserInfo, names: Names) -> None:
        self._kernel = ctx.kernel
        self.call = client.call
        self.exchanges = client.exchanges
        self._user = user
        self._agent = names.node_agent
        self.lease_namespace = names.lease_namespace
        self._patch_type = names.media_strategic_patch
        self.coordination, self.storage = names.group("coordination"), names.group("storage")

    def _send(self, on_reply: OnReply, verb: str, resource: str, **fields: Any) -> None:
        self.call(self._request(verb, resource, **fields), on_reply)

    def _request(self, verb: str, resource: str, **fields: Any) -> Request:
        cause = self._kernel.cause
        return Request(
            verb=verb, resource=resource, user=self._user, manager=self._agent, cause=cause, **fields
        )

    # --- pods -------------------------------------------------------------------------------------

    def pod_read(self, namespace: str, name: str) -> Request:
        """The read of a pod."""
        # Not through `_request`: keyword arguments that pass through a dict cost more than all the
        # rest.
        return Request(
            verb="get", resource="pods", namespace=namespace, name=name, user=self._user, manager=self._agent,
            cause=self._kernel.cause, purpose=Purpose.POD_STATUS,
        )  # fmt: skip

    def pod_status_patch(self, namespace: str, name: str, patch: Obj) -> Request:
        """The strategic-merge patch of a pod's status."""
        return Request(
            verb="patch", resource="pods", subresource="status", namespace=namespace, name=name, body=patch,
            content_type=self._patch_type, user=self._user, manager=self._agent, cause=self._kernel.cause,
            purpose=Purpose.POD_STATUS,
        )  # fmt: skip

    def create_pod(self, pod: Obj, on_reply: OnReply) -> None:
        """Create a mirror pod."""
        self._send(on_reply, "create", "pods", namespace=pod["metadata"]["namespace"], body=pod)

    def delete_pod(self, namespace: str, name: str, uid: str, on_reply: OnReply) -> None:
        """Delete a pod with this uid at once, without a grace period."""
        body = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": uid},
        }
        self._send(on_reply, "delete", "pods", namespace=namespace, name=name, body=body)

    def get_object(self, resource: str, namespace: str, name: str, on_reply: OnReply) -> None:
        """Read an object that a pod refers to."""
        self._send(on_reply, "get", resource, namespace=namespace, name=name)

    # --- nodes ------------------------------------------------------------------------------------

    def create_node(self, node: Obj, on_reply: OnReply) -> None:
        """Create the Node object."""
        self._send(on_reply, "create", "nodes", body=node)

    def get_node(self, name: str, cached: bool, on_reply: OnReply) -> None:
        """Read the Node object; `cached` accepts any revision that the server has at hand."""
        self.call(self.node_read(name, cached), on_reply)

    def node_read(self, name: str, cached: bool) -> Request:
        """The read of the Node object; `cached` accepts any revision that the server has at hand."""
        options = {"resourceVersion": "0"} if cached else EMPTY
        return self._request("get", "nodes", name=name, options=options, purpose=Purpose.NODE_REPORT)

    def patch_node_status(self, name: str, patch: Obj, on_reply: OnReply) -> None:
        """Patch the node's status, labels or annotations."""
        self.call(self.node_patch(name, patch), on_reply)

    def node_patch(self, name: str, patch: Obj) -> Request:
        """The strategic-merge patch of the node through its status subresource."""
        return self._request(
            "patch", "nodes", subresource="status", name=name, body=patch, content_type=self._patch_type,
            purpose=Purpose.NODE_REPORT,
        )  # fmt: skip

    # --- storage ----------------------------------------------------------------------------------

    def patch_claim_status(self, namespace: str, name: str, patch: Obj, on_reply: OnReply) -> None:
        """The merge patch of a claim's status."""
        self._send(
            on_reply, "patch", "persistentvolumeclaims", subresource="status", namespace=namespace, name=name,
            body=patch, content_type=MERGE_PATCH,
        )  # fmt: skip

    def read_csi_node(self, name: str, on_reply: OnReply) -> None:
        """Read the node's CSINode."""
        self._send(on_reply, "get", "csinodes", group=self.storage, name=name)

    def write_csi_node(self, verb: str, obj: Obj, on_reply: OnReply) -> None:
        """Create or update the node's CSINode."""
        name = "" if verb == "create" else obj["metadata"]["name"]
        self._send(on_reply, verb, "csinodes", group=self.storage, name=name, body=obj)

    # --- leases -----------------------------------------------------------------------------------

    def get_lease(self, name: str, on_reply: OnReply) -> None:
        """Read the node's lease."""
        self._lease(on_reply, "get", name=name)

    def create_lease(self, lease: Obj, on_reply: OnReply) -> None:
        """Create the node's lease."""
        self._lease(on_reply, "create", body=lease)

    def lease_update(self, lease: Obj, lot: int = 0) -> Request:
        """The update of the node's lease.  lot: its random draw; 0: the transport draws."""
        return self._request(
            "update", "leases", group=self.coordination, namespace=self.lease_namespace,
            name=lease["metadata"]["name"], body=lease, lot=lot,
        )  # fmt: skip

    def _lease(self, on_reply: OnReply, verb: str, **fields: Any) -> None:
        self._send(
            on_reply, verb, "leases", group=self.coordination, namespace=self.lease_namespace, **fields
        )

    # --- list and watch ---------------------------------------------------------------------------

    def list(self, resource: str, field_selector: str, revision: str, on_reply: OnReply) -> None:
        """List objects at this revision or later; "" lists from the storage."""
        options = {"fieldSelector": field_selector}
        if revision:
            options["resourceVersion"] = revision
        self._send(on_reply, "list", resource, options=options)

    def watch(
        self, resource: str, field_selector: str, revision: str, bookmarks: bool, on_reply: OnReply
    ) -> None:
        """Watch the objects that a field selector covers, from a revision on."""
        options = {"watch": "1", "resourceVersion": revision, "fieldSelector": field_selector}
        if bookmarks:
            options["allowWatchBookmarks"] = "true"
        self._send(on_reply, "watch", resource, options=options)
