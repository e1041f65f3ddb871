"""Creates of node agents: a Node, its Lease and its CSINode, which differ from those of other nodes
in names, addresses and times only.

Turns the body of such a create into the shape that it shares with the others, and the set of fields
that one agent owns of its Lease or CSINode into that of another.

Holds: two bodies of one shape differ only in valid names, the uid of the Node, addresses, the
description of the machine and times.  Defaults, admission and validation do not depend on these,
field ownership depends on the uid alone, and a body from inside the simulation is stored unchanged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sim.api.ownership.field_sets import Tree, intern
from sim.api.store import Managed
from sim.api.types import Obj, Request
from sim.api.validation import text
from sim.ident import Names

OWNER = frozenset(("apiVersion", "kind", "name", "uid"))
ADDRESS = frozenset(("address", "type"))
SHARED = frozenset(
    ("allocatable", "capacity", "daemonEndpoints")
)  # parts that are one object for equal nodes
LEASE = frozenset(("holderIdentity", "leaseDurationSeconds", "renewTime"))
TIMES = frozenset(("lastHeartbeatTime", "lastTransitionTime"))
Words = list[Any]


class Shape(NamedTuple):
    """What a body has in common with others.

    words: equal for all of them
    own: the member of the body that is stored as it was sent; "" if there is none
    uid: of the Node that owns the object; "" without an owner
    held: keeps the objects alive that the words name by identity
    """

    words: tuple[Any, ...]
    own: str
    uid: str
    held: Any


def shape_of(request: Request, rule: str, names: Names) -> Shape | None:
    """The shape of a create of a Node, a Lease or a CSINode; None if it has none."""
    body = request.body
    metadata = body.get("metadata")
    if type(metadata) is not dict:
        return None
    name = metadata.get("name")
    if type(name) is not str or request.user.name != names.node_user(name):
        return None
    if text.subdomain(name) or text.label_value(name):
        return None
    user = request.user
    words: Words = [
        rule, request.namespace, request.manager, user.groups, user.uid, len(user.extra),
        len(metadata), *body, body.get("apiVersion"), body.get("kind"), *metadata,
    ]  # fmt: skip
    held: Words = []
    uid = _add_metadata(words, metadata, name, request.namespace)
    if uid is None or not _ADDS[rule](words, body, held):
        return None
    return Shape(tuple(words), _OWN[rule], uid, held)


def _add_metadata(words: Words, metadata: Obj, name: str, namespace: str) -> str | None:
    """Add what is common of the metadata; returns the uid of the owner, None without a shape."""
    uid = ""
    for field, value in metadata.items():
        if field == "labels" or field == "annotations":
            if type(value) is not dict:
                return None
            words += (len(value), *value)
            for given in value.values():
                if type(given) is not str:
                    return None
                words.append(None if given == name and field == "labels" else given)
        elif field == "ownerReferences":
            if type(value) is not list or len(value) != 1 or type(value[0]) is not dict:
                return None
            owner = value[0]
            if owner.keys() != OWNER or not owner["name"] or not _is_uid(owner["uid"]):
                return None
            uid = owner["uid"]
            words += (*owner, owner["apiVersion"], owner["kind"])
        elif field == "namespace":
            if value != namespace:
                return None
        elif field != "name":
            return None
    return uid


def _is_uid(uid: Any) -> bool:
    """True for a text that JSON writes without escapes."""
    return type(uid) is str and uid.replace("-", "").isalnum()


# --- the rest of the body -------------------------------------------------------------------------


def _add_node(words: Words, body: Obj, held: Words) -> bool:
    status = body.get("status")
    if body.get("spec") != {} or type(status) is not dict:
        return False
    words += (len(status), *status)
    for field, value in status.items():
        if field in SHARED:
            words.append(id(value))
            held.append(value)
        elif field not in _PARTS or not _PARTS[field](words, value):
            return False
    return True


def _add_addresses(words: Words, addresses: Any) -> bool:
    if type(addresses) is not list:
        return False
    words.append(len(addresses))
    for entry in addresses:
        if type(entry) is not dict or entry.keys() != ADDRESS:
            return False
        if type(entry["type"]) is not str:
            return False
        words += (*entry, entry["type"])
    return True


def _add_info(words: Words, info: Any) -> bool:
    if type(info) is not dict:
        return False
    words += (len(info), *info)
    return True


def _add_conditions(words: Words, conditions: Any) -> bool:
    if type(conditions) is not list:
        return False
    words.append(len(conditions))
    for condition in conditions:
        if type(condition) is not dict or {*map(type, condition.values())} != {str}:
            return False
        words += (len(condition), *condition)
        words += [None if field in TIMES else value for field, value in condition.items()]
    return True


def _add_lease(words: Words, body: Obj, held: Words) -> bool:
    spec = body.get("spec")
    if type(spec) is not dict or spec.keys() != LEASE:
        return False
    seconds = spec["leaseDurationSeconds"]
    if (
        type(seconds) is not int
        or type(spec["holderIdentity"]) is not str
        or type(spec["renewTime"]) is not str
    ):
        return False
    words += (*spec, seconds)
    return True


def _add_csi_node(words: Words, body: Obj, held: Words) -> bool:
    return bool(body.get("spec") == {"drivers": []})


_PARTS = {"addresses": _add_addresses, "nodeInfo": _add_info, "conditions": _add_conditions}
_ADDS = {"nodes": _add_node, "leases": _add_lease, "csinodes": _add_csi_node}
_OWN = {"nodes": "status", "leases": "spec", "csinodes": ""}


# --- ownership ------------------------------------------------------------------------------------


def owned(entry: Managed, learned_uid: str, uid: str, now_s: int) -> Managed:
    """The entry of an object of which the owner has another uid."""
    fields = entry.fields
    if uid != learned_uid:
        metadata = fields["f:metadata"]
        owners = metadata["f:ownerReferences"]
        before, after = _element(learned_uid), _element(uid)
        owners = intern({after if name == before else name: below for name, below in owners.items()})
        fields = intern({**fields, "f:metadata": intern({**metadata, "f:ownerReferences": owners})})
    return Managed(entry.manager, entry.operation, entry.api_version, now_s, fields, entry.subresource)


def names_owner(entry: Managed, uid: str) -> bool:
    """True if the entry owns the reference to the owner with this uid, as `owned` expects."""
    owners: Tree = entry.fields.get("f:metadata", {}).get("f:ownerReferences", {})
    return _element(uid) in owners


def _element(uid: str) -> str:
    return f'k:{{"uid":"{uid}"}}'
