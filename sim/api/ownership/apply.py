"""Server-side apply: (object, its record, a configuration) to the merged object and the new record, or conflicts.

Turns what a manager wants fields to be into the object in which they are, takes out what it wanted before and
nobody wants any more, and says who loses fields by it.

Holds: an entry per applying manager and subresource, whatever version it applied in; an entry's time moves only when
the object changes, so that who merely joins an owner has none.  Pure: the object is as stored, or {} of a new one.

Mirrors  structured-merge-diff v4.2.3 merge/update.go (Apply, prune); kubernetes v1.25 apiserver
         pkg/endpoints/handlers/fieldmanager (structuredmerge, skipnonapplied, lastappliedmanager,
         managedfieldsupdater), internal/conflict.go.
Differs  what a manager applied in another version is taken out in the version of the request.
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
from sim.api.ownership.typed_values import element_text, merge, told_nulls, type_errors, with_named, without
from sim.api.schema.field_schemas import SchemaNode
from sim.api.schema.json_text import parse
from sim.api.store import Managed
from sim.api.types import Obj

BEFORE_FIRST_APPLY = "before-first-apply"  # skipnonapplied.go: who owns what was there before


class Configuration(NamedTuple):
    """What is applied, and by whom.

    force: take fields from others; reset: fields left as they are
    annotation: of a manager that takes over what it applied on the client's side, where that is told
    versions: where entries of other versions may be
    """

    obj: Obj
    writer: Writer
    force: bool = False
    reset: Tree = NOTHING
    annotation: str = ""
    versions: ownership.Versions | None = None


class Applied(NamedTuple):
    """The merged object, not yet of its Go type (the very live object if nothing changes), and who owns its fields."""

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
    """The record to start from, in full; all that was there belongs to nobody yet where nobody applied before."""
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
    last = next((entry for entry in managed if _is_of(entry, writer)), None)
    others = [entry for entry in managed if entry is not last]
    merged: Obj = merge(node, live, wanted.obj)
    if last is not None:
        theirs = union_of([entry.fields for entry in others])
        given = outside(whole_set(node, wanted.obj), reset)
        merged = _pruned(node, merged, outside(last.fields, reset), union(theirs, given))
    changed, removed = changed_fields(node, live, merged)
    changed = union(changed, told_nulls(node, live, wanted.obj))
    changed, removed = outside(changed, reset), outside(removed, reset)
    changes = [_elsewhere(entry, live, merged, wanted) or (changed, removed) for entry in others]
    conflicts = [
        Conflict(entry, fields)
        for entry, (taken, _) in zip(others, changes, strict=True)
        if (fields := intersection(entry.fields, taken))
    ]
    if conflicts and not wanted.force:
        return conflicts
    # Of lists whose items are owned one by one no order counts, of fields left as they are no value.
    same = merged == live or not (changed or removed or not unowned_alike(live, merged))
    kept = [
        with_fields(entry, difference(difference(entry.fields, taken), gone))
        for entry, (taken, gone) in zip(others, changes, strict=True)
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
    return (
        entry.operation == APPLY
        and entry.manager == writer.manager
        and entry.subresource == writer.subresource
    )


def _pruned(node: SchemaNode, merged: Obj, last: Tree, owned: Tree) -> Obj:
    """Without what the manager applied before, but for what is `owned` now, by anybody.

    First all of it goes, with whatever is below; then what others own comes back, and last what was below and is in
    no applied set: only what the manager had itself stays away.
    """
    if not last:
        return merged
    last, owned = with_named(node, last), with_named(node, owned)
    everything = with_named(node, whole_set(node, merged))
    left = with_named(node, whole_set(node, without(node, merged, last) or {}))
    back = without(node, merged, difference(everything, union(left, owned))) or {}
    dangling = difference(everything, with_named(node, whole_set(node, back)))
    return without(node, merged, intersection(dangling, last)) or {}


# --- what kubectl applied on the client's side ----------------------------------------------------


def _applied_before(node: SchemaNode, live: Obj, annotation: str) -> Tree:
    """The fields that the annotation says were applied and that are still as it says."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(annotation)
    try:
        before = parse(text or "null")
    except ValueError:
        return NOTHING
    if not isinstance(before, dict) or before.get("apiVersion") != live.get("apiVersion"):
        return NOTHING  # of another version of its kind, it says nothing
    if not before.get("kind") or type_errors(node, before):
        return NOTHING
    changed, removed = changed_fields(node, before, live)
    return difference(difference(field_set(node, before), changed), removed)


def with_last_applied(obj: Obj, wanted: Configuration) -> Obj:
    """The object with kubectl's annotation, where it has one, telling the present configuration.

    The very object if it tells that already (lastappliedupdater.go: it is written even if nothing else changes).
    """
    annotation = wanted.annotation
    metadata = obj.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not annotation or not annotations.get(annotation):
        return obj
    given = wanted.obj.get("metadata") or {}
    told = {**wanted.obj, "metadata": {k: v for k, v in given.items() if k != "managedFields"}}
    if isinstance(given.get("annotations"), dict):
        told["metadata"]["annotations"] = {k: v for k, v in given["annotations"].items() if k != annotation}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":  # as Go's encoder has them
        text = text.replace(char, f"\\u{ord(char):04x}")
    if annotations[annotation] == f"{text}\n":
        return obj
    return {**obj, "metadata": {**metadata, "annotations": {**annotations, annotation: f"{text}\n"}}}


# --- conflicts in words ---------------------------------------------------------------------------


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


def paths(fields: Tree, at: str = "") -> list[str]:
    """The members of a set as texts: those of a level first, then what is below them."""
    below = [(name, tree) for name, tree in fields.items() if name != SELF]
    out = [at + element_text(name) for name, tree in below if is_member(tree)]
    for name, tree in below:
        out += paths(tree, at + element_text(name))
    return out
