"""Server-side apply: (object, record, configuration) become the merged object and the new record,
or conflicts.

The values that a manager applies are merged into the object; fields that it applied before and that
no manager applies any more are removed; other managers lose the fields that change.

Holds: one entry per applying manager and subresource, for all versions that it applied in; the time
of an entry changes only when the object changes, so a manager that merely becomes a co-owner has
none. Pure: the object is as stored, or {} for a new one.

Mirrors  structured-merge-diff v4.2.3 merge/update.go (Apply, prune); kubernetes v1.25 apiserver
         pkg/endpoints/handlers/fieldmanager (structuredmerge, skipnonapplied, lastappliedmanager,
         managedfieldsupdater), internal/conflict.go.
Differs  fields that a manager applied in another version are removed in the version of the request.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec

from sim.api.ownership import managed as ownership
from sim.api.ownership.differences import (
    changed_fields,
    field_set,
    own_address,
    reconciled,
    spelled,
    unowned_alike,
    whole_set,
)
from sim.api.ownership.field_sets import (
    NOTHING,
    SELF,
    Tree,
    difference,
    intersection,
    is_member,
    outside,
    union,
    union_of,
)
from sim.api.ownership.managed import APPLY, UPDATE, Writer, with_fields
from sim.api.ownership.typed_values import element_text, given_nulls, merge, type_errors, with_named, without
from sim.api.schema.field_schemas import SchemaNode
from sim.api.schema.json_text import parse
from sim.api.store import Managed
from sim.api.types import Obj
from sim.pauses import paced, spent, weight_us

# Skipnonapplied.go: the owner of fields older than the first apply.
BEFORE_FIRST_APPLY = "before-first-apply"


class Configuration(NamedTuple):
    """An applied configuration and its manager.

    force: True if it takes fields from other managers
    reset: fields that the write ignores
    annotation: the last-applied annotation, for a manager that takes over what it applied
        client-side; "" otherwise
    versions: the other versions that entries may have
    """

    obj: Obj
    writer: Writer
    force: bool = False
    reset: Tree = NOTHING
    annotation: str = ""
    versions: ownership.Versions | None = None


class Applied(NamedTuple):
    """The outcome of an apply without conflicts.

    obj: the merged object, not yet of its Go type; the live object itself if nothing changes
    managed: the new owners of its fields
    """

    obj: Obj
    managed: tuple[Managed, ...]


class Conflict(NamedTuple):
    """An entry and those of its fields that the configuration would change."""

    entry: Managed
    fields: Tree


def apply(
    node: SchemaNode, live: Obj, managed: tuple[Managed, ...], wanted: Configuration
) -> Applied | list[Conflict]:
    """The outcome of an apply; conflicts unless it is forced or there are none."""
    record = _spelled(node, live, managed, wanted)
    outcome = _settled(node, live, record, wanted)
    if isinstance(outcome, Applied) or not wanted.annotation:
        return outcome
    allowed = _applied_before(node, live, wanted.annotation)
    kept = [Conflict(entry, difference(fields, allowed)) for entry, fields in outcome]
    return [conflict for conflict in kept if conflict.fields] or _settled(
        node, live, record, wanted._replace(force=True)
    )


def _spelled(
    node: SchemaNode, live: Obj, managed: tuple[Managed, ...], wanted: Configuration
) -> tuple[Managed, ...]:
    """The record to start from, in full.

    Before the first apply to an object without a record, one entry of an artificial manager owns
    all its fields.
    """
    managed = ownership.as_read(managed)
    if not managed and live:
        writer = msgspec.structs.replace(wanted.writer, manager=BEFORE_FIRST_APPLY)
        return ownership.on_create(node, live, writer, wanted.reset)
    if not node.typed:
        return tuple([with_fields(entry, reconciled(node, entry.fields)) for entry in managed])
    address = own_address(live)
    if not address:
        return managed
    return tuple([with_fields(entry, spelled(entry.fields, address)) for entry in managed])


def _settled(
    node: SchemaNode, live: Obj, managed: tuple[Managed, ...], wanted: Configuration
) -> Applied | list[Conflict]:
    writer, reset = wanted.writer, wanted.reset
    us = weight_us(live) + weight_us(wanted.obj)  # of one operation on their fields
    last = next((entry for entry in managed if _is_of(entry, writer)), None)
    others = [entry for entry in managed if entry is not last]
    merged: Obj = merge(node, live, wanted.obj)
    if last is not None:
        theirs = union_of([entry.fields for entry in others])
        spent(us)
        given = outside(whole_set(node, wanted.obj), reset)
        spent(us)
        merged = _pruned(node, merged, outside(last.fields, reset), union(theirs, given))
    spent(us)
    changed, removed = changed_fields(node, live, merged)
    spent(us)
    changed = union(changed, given_nulls(node, live, wanted.obj))
    changed, removed = outside(changed, reset), outside(removed, reset)
    changes = [_elsewhere(entry, live, merged, wanted) or (changed, removed) for entry in others]
    spent(us)
    conflicts = [
        Conflict(entry, fields)
        for entry, (taken, _) in paced(zip(others, changes, strict=True), us)
        if (fields := intersection(entry.fields, taken))
    ]
    if conflicts and not wanted.force:
        return conflicts
    # The order of lists with separately owned items does not count, nor the values of reset fields.
    same = merged == live or not (changed or removed or not unowned_alike(live, merged))
    spent(us)
    kept = [
        with_fields(entry, difference(difference(entry.fields, taken), gone))
        for entry, (taken, gone) in paced(zip(others, changes, strict=True), us)
    ]
    given = outside(field_set(node, wanted.obj), reset)
    if given:
        time_s = (last.time_s if last is not None else 0) if same else writer.time_s
        kept.append(
            Managed(writer.manager, APPLY, writer.api_version, time_s, given, subresource=writer.subresource)
        )
    record = tuple(sorted([entry for entry in kept if entry.fields], key=ownership.order))
    return Applied(live if same else merged, record)


def _elsewhere(entry: Managed, live: Obj, merged: Obj, wanted: Configuration) -> tuple[Tree, Tree] | None:
    """(added or modified, removed) in the entry's version, where that is another one."""
    if wanted.versions is None or entry.api_version == wanted.writer.api_version:
        return None
    other = wanted.versions(entry.api_version)
    return None if other is None else changed_fields(other.node, other.shown(live), other.shown(merged))


def _is_of(entry: Managed, writer: Writer) -> bool:
    """True if the entry is the writer's own Apply entry."""
    return (
        entry.operation == APPLY
        and entry.manager == writer.manager
        and entry.subresource == writer.subresource
    )


def _pruned(node: SchemaNode, merged: Obj, last: Tree, owned: Tree) -> Obj:
    """The merged object without the fields that the manager applied before and that no manager owns
    now.

    All of them are removed first, with everything below; then the fields that others own are
    restored, and then those below that are in no applied set: only the manager's own fields stay
    removed.
    """
    if not last:
        return merged
    last, owned = with_named(node, last), with_named(node, owned)
    us = weight_us(merged)
    spent(us)
    everything = with_named(node, whole_set(node, merged))
    spent(us)
    left = with_named(node, whole_set(node, without(node, merged, last) or {}))
    spent(us)
    gone = difference(everything, union(left, owned))
    spent(us)
    back = without(node, merged, gone) or {}
    spent(us)
    dangling = difference(everything, with_named(node, whole_set(node, back)))
    spent(us)
    return without(node, merged, intersection(dangling, last)) or {}


# --- what kubectl applied on the client's side ----------------------------------------------------


def _applied_before(node: SchemaNode, live: Obj, annotation: str) -> Tree:
    """The fields in the annotation that still have the values in it."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(annotation)
    try:
        before = parse(text or "null")
    except ValueError:
        return NOTHING
    if not isinstance(before, dict) or before.get("apiVersion") != live.get("apiVersion"):
        return NOTHING  # of another version of its kind: it does not count
    if not before.get("kind") or type_errors(node, before):
        return NOTHING
    changed, removed = changed_fields(node, before, live)
    return difference(difference(field_set(node, before), changed), removed)


def with_last_applied(obj: Obj, wanted: Configuration) -> Obj:
    """The object with kubectl's annotation, if it has one, holding the present configuration.

    The same object if it holds that already (lastappliedupdater.go: it is written even if nothing
    else changes).
    """
    annotation = wanted.annotation
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not annotation or not annotations.get(annotation):
        return obj
    given = wanted.obj.get("metadata") or {}
    configuration = {**wanted.obj, "metadata": {k: v for k, v in given.items() if k != "managedFields"}}
    if isinstance(given.get("annotations"), dict):
        configuration["metadata"]["annotations"] = {
            k: v for k, v in given["annotations"].items() if k != annotation
        }
    text = json.dumps(configuration, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":  # as Go's encoder escapes them
        text = text.replace(char, f"\\u{ord(char):04x}")
    if annotations[annotation] == f"{text}\n":
        return obj
    return {**obj, "metadata": {**metadata, "annotations": {**annotations, annotation: f"{text}\n"}}}


# --- texts of conflicts ---------------------------------------------------------------------------


def conflict_texts(conflicts: list[Conflict]) -> tuple[list[tuple[str, str]], str]:
    """(field, "conflict with …") of each conflict, and the summary."""
    found = sorted(conflicts, key=lambda conflict: ownership.identifier(conflict.entry))
    causes = [
        (path, f"conflict with {_shown(conflict.entry)}")
        for conflict in found
        for path in paths(conflict.fields)
    ]
    if len(causes) == 1:
        field, text = causes[0]
        return causes, f"Apply failed with 1 conflict: {text}: {field}"
    lines = []
    for conflict in found:
        lines.append(f"conflicts with {_shown(conflict.entry)}:")
        lines += [f"- {path}" for path in paths(conflict.fields)]
    listed = "\n".join(lines)
    return causes, f"Apply failed with {len(causes)} conflicts: {listed}"


def _shown(entry: Managed) -> str:
    text = json.dumps(entry.manager, ensure_ascii=False)
    if entry.subresource:
        text += f' with subresource "{entry.subresource}"'
    return f"{text} using {entry.api_version}" if entry.operation == UPDATE else text


def paths(fields: Tree) -> list[str]:
    """The members of a set as texts: those of a level first, then those below them.

    Quirk: upstream collects the paths as Go slices that share their arrays (set.go, iteratePrefix),
    so a path with room left in its array gets the last element that was appended there.
    """
    found: list[tuple[list[str], int]] = []
    _collect(fields, [], 0, found)
    return ["".join(array[:length]) for array, length in found]


def _collect(fields: Tree, array: list[str], length: int, found: list[tuple[list[str], int]]) -> None:
    """Adds the members of a set below the path that fills an array up to a length."""
    below = [(element_text(name), tree) for name, tree in fields.items() if name != SELF]
    for text, tree in below:
        if is_member(tree):
            found.append((_appended(array, length, text), length + 1))
    for text, tree in below:
        if any(name != SELF for name in tree):
            _collect(tree, _appended(array, length, text), length + 1, found)


def _appended(array: list[str], length: int, text: str) -> list[str]:
    """The array of Go's `append`: the same one while it has room, otherwise one of double size."""
    if length == len(array):
        array = array + [""] * max(1, length)
    array[length] = text
    return array
