"""The node authorizer: a node agent reads what its pods refer to, and writes what is its own.

Requests for secrets, config maps, volumes and tokens follow the graph from the object to the node;
leases and CSINodes follow their name; all other requests follow the rules of the role system:node.
A refusal is no opinion, so that another authorizer may allow the request.

Mirrors  kubernetes v1.25 plugin/pkg/auth/authorizer/node/node_authorizer.go,
         pkg/auth/nodeidentifier/default.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Decision, Opinion
from sim.api.auth.chain import ALLOWED, UserRules
from sim.api.auth.node_graph import (
    ACCOUNT,
    ATTACHMENT,
    CLAIM,
    CONFIG_MAP,
    SECRET,
    VOLUME,
    NodeGraph,
)
from sim.api.auth.node_identity import node_of
from sim.api.auth.rbac.rules import Rule, allows
from sim.api.schema.json_text import go_quote
from sim.api.types import UserInfo
from sim.ident import Names

_OWN_VERBS = ("get", "create", "update", "patch", "delete")


class NodeAuthorizer:
    """The mode Node.

    graph: returns the graph; it is called only for a request that depends on it
    rules: those of the role system:node
    """

    def __init__(self, names: Names, graph: Callable[[], NodeGraph], rules: Sequence[Rule]) -> None:
        self._names = names
        self._graph = graph
        self._rules = tuple(rules)
        storage = names.group("storage")
        self._judges: dict[tuple[str, str], Callable[[str, AccessAttributes], Opinion]] = {
            ("", SECRET): self._read,
            ("", CONFIG_MAP): self._read,
            ("", CLAIM): self._claim,
            ("", VOLUME): self._get,
            (storage, ATTACHMENT): self._get,
            ("", ACCOUNT): self._token,
            (names.group("coordination"), "leases"): self._lease,
            (storage, "csinodes"): self._csi_node,
        }

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Judge one request: allow it or have no opinion."""
        node = node_of(self._names, user)
        if node is None:
            return NO_OPINION
        if not node:
            return _no(f"unknown node for user {go_quote(user.name)}")
        judge = self._judges.get((attributes.group, attributes.resource))
        if judge is not None:
            return judge(node, attributes)
        return ALLOWED if any(allows(rule, attributes) for rule in self._rules) else NO_OPINION

    def user_rules(self, user: UserInfo, namespace: str) -> UserRules:
        """List nothing: what a node may do depends on its pods."""
        if node_of(self._names, user) is None:
            return UserRules()
        return UserRules(incomplete=True, errors=("node authorizer does not support user rule resolution",))

    def standing(self, user: UserInfo, namespace: str) -> object:
        """Whether the user is a node, and one with a name."""
        node = node_of(self._names, user)
        return node and True

    # --- one function for each kind of resource ---------------------------------------------------

    def _read(self, node: str, asked: AccessAttributes) -> Opinion:
        if asked.verb not in ("get", "list", "watch"):
            return _no("can only read resources of this type")
        if asked.subresource:
            return _no("cannot read subresource")
        if not asked.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, asked)

    def _get(self, node: str, asked: AccessAttributes) -> Opinion:
        if asked.verb != "get":
            return _no("can only get individual resources of this type")
        if asked.subresource:
            return _no("cannot get subresource")
        return self._related(node, asked)

    def _claim(self, node: str, asked: AccessAttributes) -> Opinion:
        if asked.subresource != "status":
            return self._get(node, asked)
        if asked.verb not in ("update", "patch"):
            return _no("can only get/update/patch this type")
        return self._related(node, asked)

    def _token(self, node: str, asked: AccessAttributes) -> Opinion:
        if asked.verb != "create" or not asked.name:
            return _no("can only create tokens for individual service accounts")
        if asked.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._related(node, asked)

    def _related(self, node: str, asked: AccessAttributes) -> Opinion:
        if not asked.name:
            return _no("No Object name found")
        if self._graph().reaches((asked.resource, asked.namespace, asked.name), node):
            return ALLOWED
        return _no(f"no relationship found between node '{node}' and this object")

    def _lease(self, node: str, asked: AccessAttributes) -> Opinion:
        namespace = self._names.lease_namespace
        if asked.verb not in _OWN_VERBS:
            return _no("can only get, create, update, patch, or delete a node lease")
        if asked.namespace != namespace:
            return _no(f"can only access leases in the {go_quote(namespace)} system namespace")
        if asked.verb != "create" and asked.name != node:
            return _no("can only access node lease with the same name as the requesting node")
        return ALLOWED

    def _csi_node(self, node: str, asked: AccessAttributes) -> Opinion:
        if asked.verb not in _OWN_VERBS:
            return _no("can only get, create, update, patch, or delete a CSINode")
        if asked.subresource:
            return _no("cannot authorize CSINode subresources")
        if asked.verb != "create" and asked.name != node:
            return _no("can only access CSINode with the same name as the requesting node")
        return ALLOWED


def _no(reason: str) -> Opinion:
    return Opinion(Decision.NO_OPINION, reason)
