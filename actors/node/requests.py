"""The agent's calls as `Request` values, in callback form.

Turns "read this pod", "write its status" into requests of the node's user and hands them to a client's `call`.
Nothing here retries or remembers: replies go to the callback of the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sim.api.store import Item
from sim.api.types import EMPTY, Obj, Reply, Request, UserInfo
from sim.client.fast.lease_renewal import Rhythm
from sim.client.fast.read_modify_write import Leg
from sim.ident import Names
from sim.kernel.actor import Context

OnReply = Callable[[Reply], None]


def user_of(names: Names, node: str) -> UserInfo:
    """Whom a node's agent asks as."""
    return UserInfo(names.node_user(node), (names.group_nodes, names.group_authenticated))


class Caller(Protocol):
    """The part of a client that the agent uses."""

    def call(self, request: Request, on_reply: OnReply) -> None: ...
    def exchanges(self, resource: str, name: str = "") -> Exchanges: ...


class Beat(Protocol):
    """A periodic rewrite of one field, one kernel event each (see sim.client.rest.client.Heartbeat)."""

    def schedule(self) -> None: ...
    def taken(self) -> Item | None: ...


class Folded(Protocol):
    """Calls about one object that a server may have a short way for (see sim.client.fast.coalesced_calls.FoldedCalls)."""

    def send(
        self,
        serve: Callable[[Any], tuple[Item, int] | None],
        request: Callable[[], Request],
        on_reply: OnReply,
        timeout_us: int = 0,
        quiet: bool = False,
    ) -> bool: ...
    def claim(self) -> bool: ...


class Exchanges(Folded, Protocol):
    """Reads and the writes that follow from them (see sim.client.fast.read_modify_write.Exchange)."""

    def exchange(
        self,
        read: Leg,
        compose: Callable[[Item, int], bool],
        write: Leg,
        told: Callable[[Item, int], None],
    ) -> bool: ...
    def over(self) -> bool: ...
    def plan(self) -> None: ...


class HeartbeatCaller(Caller, Protocol):
    """The client of heartbeats: not rate limited, with a lane for renewals and short ways for reports."""

    def heartbeat(
        self,
        resource: str,
        namespace: str,
        name: str,
        path: tuple[str, ...],
        rhythm: Rhythm,
        missed: Callable[[], None],
    ) -> Beat: ...


class Api:
    """Requests of one client."""

    __slots__ = (
        "_agent",
        "_kernel",
        "_patch_type",
        "_user",
        "call",
        "coordination",
        "exchanges",
        "lease_namespace",
    )

    def __init__(self, ctx: Context, client: Caller, user: UserInfo, names: Names) -> None:
        self._kernel = ctx.kernel
        self.call = client.call
        self.exchanges = client.exchanges
        self._user = user
        self._agent = names.node_agent
        self.lease_namespace = names.lease_namespace
        self._patch_type = names.media_strategic_patch
        self.coordination = names.group("coordination")

    def _send(self, on_reply: OnReply, verb: str, resource: str, **fields: Any) -> None:
        self.call(self._request(verb, resource, **fields), on_reply)

    def _request(self, verb: str, resource: str, **fields: Any) -> Request:
        cause = self._kernel.cause
        return Request(
            verb=verb, resource=resource, user=self._user, manager=self._agent, cause=cause, **fields
        )

    # --- pods ---------------------------------------------------------------------------------------------

    def pod_read(self, namespace: str, name: str) -> Request:
        # Not by `_request`: fields that are handed on in a dict cost more than all the rest.
        return Request(
            verb="get", resource="pods", namespace=namespace, name=name, user=self._user, manager=self._agent,
            cause=self._kernel.cause,
        )  # fmt: skip

    def pod_status_patch(self, namespace: str, name: str, patch: Obj) -> Request:
        return Request(
            verb="patch", resource="pods", subresource="status", namespace=namespace, name=name, body=patch,
            content_type=self._patch_type, user=self._user, manager=self._agent, cause=self._kernel.cause,
        )  # fmt: skip

    def create_pod(self, pod: Obj, on_reply: OnReply) -> None:
        self._send(on_reply, "create", "pods", namespace=pod["metadata"]["namespace"], body=pod)

    def delete_pod(self, namespace: str, name: str, uid: str, on_reply: OnReply) -> None:
        body = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": uid},
        }
        self._send(on_reply, "delete", "pods", namespace=namespace, name=name, body=body)

    def get_object(self, resource: str, namespace: str, name: str, on_reply: OnReply) -> None:
        """A ConfigMap or Secret that a pod refers to."""
        self._send(on_reply, "get", resource, namespace=namespace, name=name)

    # --- nodes --------------------------------------------------------------------------------------------

    def create_node(self, node: Obj, on_reply: OnReply) -> None:
        self._send(on_reply, "create", "nodes", body=node)

    def get_node(self, name: str, cached: bool, on_reply: OnReply) -> None:
        self.call(self.node_read(name, cached), on_reply)

    def node_read(self, name: str, cached: bool) -> Request:
        return self._request("get", "nodes", name=name, options={"resourceVersion": "0"} if cached else EMPTY)

    def patch_node_status(self, name: str, patch: Obj, on_reply: OnReply) -> None:
        self.call(self.node_patch(name, patch), on_reply)

    def node_patch(self, name: str, patch: Obj) -> Request:
        return self._request(
            "patch", "nodes", subresource="status", name=name, body=patch, content_type=self._patch_type
        )

    # --- leases -------------------------------------------------------------------------------------------

    def get_lease(self, name: str, on_reply: OnReply) -> None:
        self._lease(on_reply, "get", name=name)

    def create_lease(self, lease: Obj, on_reply: OnReply) -> None:
        self._lease(on_reply, "create", body=lease)

    def update_lease(self, lease: Obj, on_reply: OnReply) -> None:
        self._lease(on_reply, "update", name=lease["metadata"]["name"], body=lease)

    def _lease(self, on_reply: OnReply, verb: str, **fields: Any) -> None:
        self._send(
            on_reply, verb, "leases", group=self.coordination, namespace=self.lease_namespace, **fields
        )

    # --- list and watch -----------------------------------------------------------------------------------

    def list(self, resource: str, field_selector: str, revision: str, on_reply: OnReply) -> None:
        """Nothing older than this revision; "": from the storage."""
        options = {"fieldSelector": field_selector}
        if revision:
            options["resourceVersion"] = revision
        self._send(on_reply, "list", resource, options=options)

    def watch(
        self, resource: str, field_selector: str, revision: str, bookmarks: bool, on_reply: OnReply
    ) -> None:
        options = {"watch": "1", "resourceVersion": revision, "fieldSelector": field_selector}
        if bookmarks:
            options["allowWatchBookmarks"] = "true"
        self._send(on_reply, "watch", resource, options=options)
