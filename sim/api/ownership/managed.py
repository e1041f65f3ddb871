"""Field ownership: the owners of an object's fields after a write.

Schema, old and new object and writer give the `Managed` entries that a store keeps beside the
object, and these become `metadata.managedFields`.

Holds: one entry per manager, operation, subresource and apiVersion, none of them empty, in
upstream's order (operation, time, manager, version, subresource). Objects carry no
`metadata.managedFields` unless a client sets it on purpose. An object with an empty record stays
untracked until the first apply.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/fieldmanager (structuredmerge,
         managedfieldsupdater, buildmanagerinfo, capmanagers, skipnonapplied, stripmeta),
         structured-merge-diff v4 typed/merge.go.
Differs  fields that a write ignores are excluded in the version of the write only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from sim import remembered
from sim.api.ownership.differences import (
    Duplicates,
    bound,
    changed_fields,
    has_addresses,
    is_neutral,
    own_address,
    reconciled,
    spelled,
    with_own,
)
from sim.api.ownership.field_sets import (
    NOTHING,
    Tree,
    difference,
    of_paths,
    outside,
    read_tree,
    union,
    union_of,
)
from sim.api.ownership.typed_values import type_errors
from sim.api.schema.field_schemas import SchemaNode
from sim.api.store import Managed
from sim.api.types import Obj
from sim.units import SECOND, format_time, parse_time

UPDATE_MANAGERS_MAX = 10  # fieldmanager.DefaultMaxUpdateManagers
ANCIENT = "ancient-changes"  # capmanagers.go: oldUpdatesManagerName
UPDATE: Final = "Update"
APPLY: Final = "Apply"
FIELDS_TYPE = "FieldsV1"  # the only form of sets


class Writer(msgspec.Struct, frozen=True):
    """The manager of a write, the version and subresource of the request, and Unix time in seconds.

    tracks: False while server-side apply is off, so that no fields have owners
    """

    manager: str
    api_version: str
    time_s: int
    subresource: str = ""
    tracks: bool = True


class Version(NamedTuple):
    """Another version of an object.

    node: its schema
    shown: converts an object of the write's version to it
    """

    node: SchemaNode
    shown: Callable[[Obj], Obj]


# By apiVersion; None: the same as the version of the write.
Versions = Callable[[str], Version | None]


# By apiVersion: True if the kind of the object exists in it.
Registered = Callable[[str], bool]


# --- entries --------------------------------------------------------------------------------------


def on_create(
    node: SchemaNode, obj: Obj, writer: Writer, reset: Tree = NOTHING, registered: Registered = lambda _: True
) -> tuple[Managed, ...]:
    """The record of a new object: its creator owns all fields.

    obj: decoded and defaulted, before admission and strategy, which fill in fields without owners
    reset: fields that this kind never takes from a create (`reset_fields`)
    registered: as of `of_registered`
    """
    if not writer.tracks or (not node.typed and type_errors(node, obj)):
        return ()  # upstream ignores ownership of values that it cannot compare
    given = given_record(obj)
    if given:
        given = of_registered(given, registered)
        record = on_update(node, given, {}, obj, writer, reset)
        return rebound(record, obj, {})  # a new pod has no address
    try:
        owned = outside(changed_fields(node, {}, obj)[0], reset)
    except Duplicates:
        return ()
    if not owned:
        return ()
    return _remembered((owned, writer), (id(owned), writer), lambda: (_entry(writer, owned),))


def on_update(
    node: SchemaNode,
    managed: tuple[Managed, ...],
    old: Obj,
    new: Obj,
    writer: Writer,
    reset: Tree = NOTHING,
    versions: Versions | None = None,
) -> tuple[Managed, ...]:
    """The record after an update: the writer owns each field that it changes, and removed fields
    have no owner.

    managed: the result of `live_or_given`
    versions: the other versions that entries may have

    The time of an entry changes only when its writer adds or changes a value.
    """
    if not writer.tracks:
        return ()
    if not managed or old is new:
        return managed
    managed = tuple([entry for entry in managed if entry.fields])
    if versions is not None:
        if not node.typed and misfit(managed, (old, new), writer.api_version, versions):
            return ()
        managed = _left_elsewhere(managed, old, new, writer.api_version, versions)
    if not node.typed:
        if type_errors(node, new) or type_errors(node, old):
            return ()  # fieldmanager.go, UpdateNoErrors: the record is dropped
        managed = tuple([with_fields(entry, reconciled(node, entry.fields)) for entry in managed])
    was, now = own_address(old), own_address(new)
    own = was or now
    if not own:
        return _updated(node, managed, old, new, writer, reset)
    if was == now or not has_addresses(new if was else old):
        managed = _renamed(managed, own, bound)
        old, new = (with_own(old) if was else old), (with_own(new) if now else new)
        managed = _updated(node, managed, old, new, writer, reset)
        return managed if now else _renamed(managed, own, spelled)
    managed = _renamed(managed, own, spelled)
    managed = _updated(node, managed, old, new, writer, reset)
    return _renamed(managed, now, bound) if now else managed


def misfit(
    managed: tuple[Managed, ...], objects: tuple[Obj, ...], version: str, versions: Versions
) -> list[str]:
    """Why objects of a custom kind do not fit a version that entries were written in.

    Another version need not declare all fields (merge/update.go: a conversion that fails).
    """
    for entry in managed:
        other = versions(entry.api_version) if entry.api_version != version else None
        if other is None:
            continue
        for obj in objects:
            if wrong := type_errors(other.node, other.shown(obj)):
                return wrong
    return []


def _left_elsewhere(
    managed: tuple[Managed, ...], old: Obj, new: Obj, version: str, versions: Versions
) -> tuple[Managed, ...]:
    """The record without the changed fields in entries of other versions, each compared in its
    version.
    """
    out = []
    for entry in managed:
        other = versions(entry.api_version) if entry.api_version != version else None
        if other is not None:
            changed, removed = changed_fields(other.node, other.shown(old), other.shown(new))
            entry = with_fields(entry, difference(difference(entry.fields, changed), removed))
        if entry.fields:
            out.append(entry)
    return tuple(out)


def rebound(managed: tuple[Managed, ...], wanted: Obj, stored: Obj) -> tuple[Managed, ...]:
    """The record of an object in the form that fits the stored object (`differences`: own
    elements).
    """
    wanted_address, kept = own_address(wanted), own_address(stored)
    if wanted_address == kept:
        return managed
    if wanted_address:
        managed = _renamed(managed, wanted_address, spelled)
    return _renamed(managed, kept, bound) if kept else managed


def kept_times(before: tuple[Managed, ...], after: tuple[Managed, ...]) -> tuple[Managed, ...]:
    """The old record if only times differ: a changed time alone is not written (equality.go).

    Quirk: entries are compared by position; a time that changes the order of entries is written.
    """

    def timeless(record: tuple[Managed, ...]) -> list[Managed]:
        return [msgspec.structs.replace(entry, time_s=0) for entry in record]

    return before if timeless(before) == timeless(after) else after


def is_bound(managed: tuple[Managed, ...]) -> bool:
    """True if the record spells no address of a pod."""
    return all(is_neutral(entry.fields) for entry in managed)


def _renamed(
    managed: tuple[Managed, ...], address: str, rename: Callable[[Tree, str], Tree]
) -> tuple[Managed, ...]:
    """The entries with their sets `bound` or `spelled`; the same tuple if nothing changes."""
    for entry in managed:
        if rename(entry.fields, address) is not entry.fields:
            return tuple([with_fields(entry, rename(entry.fields, address)) for entry in managed])
    return managed


def with_fields(entry: Managed, fields: Tree) -> Managed:
    """The entry with another set of fields."""
    return entry if fields is entry.fields else msgspec.structs.replace(entry, fields=fields)


def _updated(
    node: SchemaNode, managed: tuple[Managed, ...], old: Obj, new: Obj, writer: Writer, reset: Tree
) -> tuple[Managed, ...]:
    try:
        changed, removed = changed_fields(node, old, new)
    except Duplicates:
        return ()  # fieldmanager.go, UpdateNoErrors: the record is dropped
    if reset:
        changed, removed = outside(changed, reset), outside(removed, reset)
    if not changed and not removed:
        return managed
    return _remembered(
        (managed, changed, removed),
        (id(managed), id(changed), id(removed), writer),
        lambda: _merged(managed, changed, removed, writer),
    )


# Records shared by similar objects of one second; references to the inputs keep their ids unique.
_RECORDS_MAX = 8192
_records: dict[Any, tuple[Any, tuple[Managed, ...]]] = {}
remembered.register(_records.clear)


def _remembered(held: Any, key: Any, make: Callable[[], tuple[Managed, ...]]) -> tuple[Managed, ...]:
    known = _records.get(key)
    if known is None:
        if len(_records) >= _RECORDS_MAX:
            _records.clear()
        known = _records[key] = (held, make())
    return known[1]


def _merged(
    managed: tuple[Managed, ...], changed: Tree, removed: Tree, writer: Writer
) -> tuple[Managed, ...]:
    touched = union(changed, removed)
    mine = NOTHING
    kept = []
    for entry in managed:
        fields = difference(entry.fields, touched)
        if _is_of(entry, writer):
            mine = fields
            if changed:
                continue
        if fields:
            kept.append(with_fields(entry, fields))
    if changed:
        kept.append(_entry(writer, union(mine, changed)))
        _cap(kept)
    kept.sort(key=order)
    return tuple(kept)


def _is_of(entry: Managed, writer: Writer) -> bool:
    return (
        entry.manager == writer.manager
        and entry.operation == UPDATE
        and entry.subresource == writer.subresource
        and entry.api_version == writer.api_version
    )


def _entry(writer: Writer, fields: Tree) -> Managed:
    return Managed(
        manager=writer.manager,
        operation=UPDATE,
        api_version=writer.api_version,
        time_s=writer.time_s,
        fields=fields,
        subresource=writer.subresource,
    )


def order(entry: Managed) -> tuple[str, int, str, str, str]:
    """Sort key of upstream's order of entries."""
    return (entry.operation, entry.time_s, entry.manager, entry.api_version, entry.subresource)


def _cap(entries: list[Managed]) -> None:
    """Combines the oldest Update entries of a version until the bound is kept."""
    updaters = [entry for entry in entries if entry.operation == UPDATE]
    surplus = len(updaters) - UPDATE_MANAGERS_MAX
    if surplus <= 0:
        return
    updaters.sort(key=lambda entry: (entry.time_s, identifier(entry)))
    combined: dict[str, list[Managed]] = {}
    for count, entry in enumerate(updaters):
        if count - len(combined) == surplus:
            break
        combined.setdefault(entry.api_version, []).append(entry)
    else:
        count = len(updaters)
    entries[:] = [entry for entry in entries if entry.operation != UPDATE] + updaters[count:]
    for version, alike in combined.items():
        # The time of the youngest entry, which was the last to change.
        time_s, fields = alike[-1].time_s, union_of([entry.fields for entry in alike])
        entries.append(alike[0] if len(alike) == 1 else Managed(ANCIENT, UPDATE, version, time_s, fields))


# --- records in objects ---------------------------------------------------------------------------


def given_record(obj: Obj) -> tuple[Managed, ...] | None:
    """The record in an object from a client; () if it requests a reset; None if it has none, or an
    invalid one.

    Entries without fields and of versions without the kind remain, which `on_update` removes.
    """
    entries = (obj.get("metadata") or {}).get("managedFields")
    if not isinstance(entries, list):
        return None
    if not entries or entries == [{}]:
        return ()
    out = {}
    for entry in entries:
        fields, version = read_tree(entry.get("fieldsV1")), entry.get("apiVersion")
        decodable = entry.get("operation") in (UPDATE, APPLY) and entry.get("fieldsType") == FIELDS_TYPE
        if not decodable or not version or fields is None:
            return None
        time = entry.get("time")
        read = Managed(
            manager=entry.get("manager", ""),
            operation=entry["operation"],
            api_version=version,
            time_s=parse_time(time) // SECOND if time else 0,
            fields=fields,
            subresource=entry.get("subresource", ""),
        )
        out[identifier(read)] = read
    return tuple(sorted(out.values(), key=order))


def live_or_given(live: tuple[Managed, ...], new: Obj, subresource: str) -> tuple[Managed, ...]:
    """The record that an update starts from: the client's own if it sends one to the main resource."""
    given = None if subresource else given_record(new)
    return as_read(live) if given is None else given


def of_registered(given: tuple[Managed, ...], registered: Registered) -> tuple[Managed, ...]:
    """A client's record, with no fields in entries of versions that the kind does not have.

    Such entries count as a record, but do not outlast the write (update.go: IsMissingVersionError).
    """
    return tuple([e if registered(e.api_version) else with_fields(e, NOTHING) for e in given])


def as_read(managed: tuple[Managed, ...]) -> tuple[Managed, ...]:
    """The record as the next writer reads it.

    Quirk: of two entries with one identifier it keeps the later one; only the first, from a scale,
    may have no time.
    """
    for entry in managed:
        if not entry.time_s:
            break
    else:
        return managed
    named = {identifier(entry): entry for entry in managed}
    return managed if len(named) == len(managed) else tuple(named.values())


def identifier(entry: Managed) -> str:
    """The identity of an entry, which also orders conflicts (internal/managedfields.go,
    BuildManagerIdentifier).

    It excludes the version of Apply entries.
    """
    parts = {
        "manager": entry.manager,
        "operation": entry.operation,
        "apiVersion": entry.api_version if entry.operation == UPDATE else "",
        "subresource": entry.subresource,
    }
    kept = {key: text for key, text in parts.items() if text}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False)


def render(managed: tuple[Managed, ...], obj: Obj) -> list[Obj]:
    """`metadata.managedFields` of the object; entries that only took ownership have no time."""
    address = own_address(obj)
    return [_render(entry) for entry in (_renamed(managed, address, spelled) if address else managed)]


def _render(entry: Managed) -> Obj:
    out: Obj = {"manager": entry.manager} if entry.manager else {}
    out |= {"operation": entry.operation, "apiVersion": entry.api_version}
    if entry.time_s:
        out["time"] = format_time(entry.time_s * SECOND)
    out |= {"fieldsType": FIELDS_TYPE, "fieldsV1": entry.fields}
    if entry.subresource:
        out["subresource"] = entry.subresource
    return out


# --- fields that a write never takes ------------------------------------------------------------

_SPEC, _STATUS = of_paths(("spec",)), of_paths(("status",))
_METADATA_SPEC = of_paths(("metadata",), ("spec",))
# GetResetFields of registry strategies, where it differs from the rule (facts of kinds, section 1).
_RESET = {
    ("pods", "status"): of_paths(
        ("spec",), ("metadata", "deletionTimestamp"), ("metadata", "ownerReferences")
    ),
    ("deployments", "status"): of_paths(("spec",), ("metadata", "labels")),
    ("flowschemas", "status"): _METADATA_SPEC,
    ("prioritylevelconfigurations", "status"): _METADATA_SPEC,
    ("volumeattachments", "status"): _METADATA_SPEC,
    ("customresourcedefinitions", "status"): _METADATA_SPEC,
    # A main write may set it while the feature is off, and does not own it.
    ("networkpolicies", ""): _STATUS,
    ("certificatesigningrequests", ""): of_paths(("spec",), ("status",)),
    ("certificatesigningrequests", "status"): of_paths(("spec",), ("status", "conditions")),
    ("certificatesigningrequests", "approval"): of_paths(("spec",), ("status", "certificate")),
}


def reset_fields(plural: str, subresource: str, has_status: bool) -> Tree:
    """Fields that a write of this resource ignores and therefore does not own."""
    special = _RESET.get((plural, subresource))
    if special is not None:
        return special
    if subresource == "status":
        return _SPEC
    return _STATUS if has_status and not subresource else NOTHING
