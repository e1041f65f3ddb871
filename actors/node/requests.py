"""The requests of a node agent, in callback form.

Turns a read or a write that the agent needs into a request of the node's user and hands it to a
client's `call`. Nothing here retries or keeps state: the reply goes to the caller's callback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.api.types import EMPTY, Obj, Reply, Request, UserInfo, Verb
from sim.client.client import Client
from sim.ident import Names
from sim.kernel.actor import Context
from sim.kernel.network import Purpose

OnReply = Callable[[Reply], None]
MERGE_PATCH = "application/merge-patch+json"


def user_of(names: Names, node: str) -> UserInfo:
    """The user that a node's agent authenticates as."""
    return UserInfo(names.node_user(node), (names.group_nodes, names.group_authenticated))


class Api:
    """Makes and sends the requests of one client."""

    __slots__ = (
        "_agent",
        "_kernel",
        "_patch_type",
        "_user",
        "authentication",
        "call",
        "coordination",
        "exchanges",
        "lease_namespace",
        "storage",
    )

    def __init__(self, ctx: Context, client: Client, user: UserInfo, names: Names) -> None:
        self._kernel = ctx.kernel
        self.call = client.call
        self.exchanges = client.exchanges
        self._user = user
        self._agent = names.node_agent
        self.lease_namespace = names.lease_namespace
        self._patch_type = names.media_strategic_patch
        self.authentication = names.group("authentication")
        self.coordination, self.storage = names.group("coordination"), names.group("storage")

    def _send(self, on_reply: OnReply, verb: Verb, resource: str, **fields: Any) -> None:
        self.call(self._request(verb, resource, **fields), on_reply)

    def _request(self, verb: Verb, resource: str, **fields: Any) -> Request:
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

    def create_token(self, pod: Obj, account: str, source: Obj, on_reply: OnReply) -> None:
        """Ask for a token of a pod's service account, which ends with the pod.

        source: of a projected volume: audience and seconds
        Mirrors  pkg/volume/projected/projected.go: collectData.
        """
        meta = pod["metadata"]
        spec = {
            "audiences": [source["audience"]] if source.get("audience") else [],
            "expirationSeconds": source.get("expirationSeconds", 3600),
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": meta["name"],
                "uid": meta["uid"],
            },
        }
        self._send(
            on_reply,
            "create",
            "serviceaccounts",
            subresource="token",
            namespace=meta["namespace"],
            name=account,
            body={"kind": "TokenRequest", "apiVersion": f"{self.authentication}/v1", "spec": spec},
        )

    # --- reviews ----------------------------------------------------------------------------------

    def review(self, resource: str, group: str, body: Obj, on_reply: OnReply) -> None:
        """Create a review of a token or of access."""
        self._send(on_reply, "create", resource, group=group, body=body)

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

    def write_csi_node(self, verb: Verb, obj: Obj, on_reply: OnReply) -> None:
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

    def lease_update(self, lease: Obj, draw: int = 0) -> Request:
        """The update of the node's lease.  draw: its random draw; 0: the transport draws."""
        return self._request(
            "update", "leases", group=self.coordination, namespace=self.lease_namespace,
            name=lease["metadata"]["name"], body=lease, draw=draw,
        )  # fmt: skip

    def _lease(self, on_reply: OnReply, verb: Verb, **fields: Any) -> None:
        self._send(
            on_reply, verb, "leases", group=self.coordination, namespace=self.lease_namespace, **fields
        )

    # --- list and watch ---------------------------------------------------------------------------

    def list(self, resource: str, field_selector: str, revision: str, on_reply: OnReply) -> None:
        """List objects at this revision or later; "" lists from the storage."""
        options = {"fieldSelector": field_selector} if field_selector else {}
        if revision:
            options["resourceVersion"] = revision
        self._send(on_reply, "list", resource, options=options)

    def watch(
        self, resource: str, field_selector: str, revision: str, bookmarks: bool, on_reply: OnReply
    ) -> None:
        """Watch the objects that a field selector covers, from a revision on."""
        options = {"watch": "1", "resourceVersion": revision}
        if field_selector:
            options["fieldSelector"] = field_selector
        if bookmarks:
            options["allowWatchBookmarks"] = "true"
        self._send(on_reply, "watch", resource, options=options)
