"""Objects to values of etcd as upstream stores them, and back.

Turns an object and its field owners into the protobuf envelope of a fixed kind, or the JSON of a
custom resource, and either form into an `Item`, also where another server has written it.

Holds: a value has no revision: that of its key is the object's; what another version of a kind has
written is converted to the form that is stored here.

Mirrors  kubernetes v1.25 apiserver pkg/storage/etcd3/store.go (decode),
         pkg/storage/etcd3/api_object_versioner.go (PrepareObjectForStorage: without
         resourceVersion).
Differs  a kind without field numbers is JSON with every media type; hints of an EndpointSlice that
         another server has written, as v1beta1, are not read.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actors.storage.etcd.encryption import Encryption
from sim.api import raw_text
from sim.api.go.escapes import escaped
from sim.api.kinds.conversion import form_of
from sim.api.kinds.defaults import apply_defaults
from sim.api.messages import protobuf, protobuf_encode
from sim.api.ownership import managed
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.store import Item, Managed
from sim.api.types import Obj
from sim.ident import Names
from sim.units import Revision

PROTOBUF, JSON = "application/vnd.kubernetes.protobuf", "application/json"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class BadValueError(Exception):
    """A value is no object."""


class Values:
    """The values of one cluster.

    media_type: `--storage-media-type`, of the fixed kinds
    encryption: None without one
    """

    def __init__(
        self, scheme: Scheme, media_type: str = PROTOBUF, encryption: Encryption | None = None
    ) -> None:
        self._scheme = scheme
        self._encryption = encryption
        self._in_protobuf = media_type == PROTOBUF
        self._fixed = {each.prefix: each for each in reversed(scheme.resources) if each.form is None}

    def encode(self, key: str, obj: Obj, owners: tuple[Managed, ...]) -> bytes:
        """The value of an object.  key: in the store"""
        value = self._written(key, obj, owners)
        return value if self._encryption is None else self._encryption.seal(key, value)

    def _written(self, key: str, obj: Obj, owners: tuple[Managed, ...]) -> bytes:
        resource = self._fixed.get(key[: key.index("/", key.index("/", 1) + 1) + 1])
        metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
        if owners:
            metadata["managedFields"] = managed.render(owners, obj)
        whole = {**obj, "metadata": metadata}
        if resource is None:
            return escaped(_encode(raw_text.shown(whole))) + b"\n"
        whole |= {"kind": resource.kind, "apiVersion": resource.api_version}
        if self._in_protobuf and not resource.json_only:
            return protobuf_encode.encode(whole, self._scheme.names)
        return escaped(_encode(raw_text.shown(whole))) + b"\n"

    def decode(self, key: str, value: bytes, rev: Revision, created: Revision) -> Item:
        """The object of a value.  Raises BadValueError."""
        fixed = self._fixed.get(key[: key.index("/", key.index("/", 1) + 1) + 1])
        try:
            if self._encryption is not None:
                value = self._encryption.open(key, value)
            obj = self._read(fixed, value)
            metadata = {**obj["metadata"], "resourceVersion": str(rev)}
        except (
            protobuf.ProtobufError,
            msgspec.DecodeError,
            UnicodeDecodeError,
            KeyError,
            TypeError,
        ) as error:
            raise BadValueError(f"the value of {key} is no object: {error!r}") from None
        owners = managed.given_record({"metadata": metadata}) or ()
        metadata.pop("managedFields", None)
        return Item(key, {**obj, "metadata": metadata}, rev, created, owners)

    def _read(self, fixed: Resource | None, value: bytes) -> Any:
        if value.startswith(protobuf.MAGIC):
            obj = protobuf.decode(value, "" if fixed is None else fixed.upstream_group)
        else:
            obj = _decode(value)
        if fixed is None:
            return obj
        if obj["apiVersion"] != fixed.api_version:
            group = obj["apiVersion"].rpartition("/")[0]
            if group != fixed.group:
                raise BadValueError(f"holds a {obj['kind']} of the group {group!r}, not {fixed.group!r}")
            entry = self._scheme.by_kind(obj["apiVersion"], obj["kind"])
            form = None if entry is None else form_of(entry, self._scheme.names)
            obj = _renewed(obj, self._scheme.names) if form is None else form.stored(obj)
            obj = {**obj, "apiVersion": fixed.api_version}
        return _whole(fixed, obj)


def _renewed(obj: Obj, names: Names) -> Obj:
    """An object of a version that is stored but not served, with the fields of v1."""
    if obj["kind"] != "EndpointSlice":
        return obj
    return {**obj, "endpoints": [_endpoint(each, names) for each in obj.get("endpoints") or ()]}


def _endpoint(old: Obj, names: Names) -> Obj:
    """An endpoint of v1beta1, which has its zone in its topology (discovery/v1beta1/conversion.go)."""
    topology = {**(old.get("deprecatedTopology") or old.get("topology") or {})}
    new = {each: old[each] for each in old if each not in ("zone", "deprecatedTopology", "topology")}
    for label, field in ((names.label_zone, "zone"), (names.label_hostname, "nodeName")):
        if label in topology:
            new.setdefault(field, topology.pop(label))
    return {**new, "deprecatedTopology": topology} if topology else new


def _whole(resource: Resource, obj: Obj) -> Obj:
    """An object with the defaults and the zero values that JSON has, which are not in protobuf."""
    obj = apply_defaults(resource, obj)
    strategy = resource.behavior.strategy
    if strategy.status:
        obj = {**obj, "status": {**strategy.zero_status, **(obj.get("status") or {})}}
    return apply_defaults(resource, obj, "status") if resource.behavior.status_defaults else obj
