"""Charges a write to the quotas of its namespace, before the write itself.

An object about to be stored becomes writes to the status of quotas, or a refusal.

Holds: a quota is never charged beyond its limits, however many writes are concurrent: each charge
replaces exactly the revision that it was computed from.
Quirk: a write that fails after its charge (the name exists) stays charged until the next recount.

Mirrors  kubernetes v1.25 apiserver
         pkg/admission/plugin/resourcequota/{controller.go,resource_access.go}.
Differs  quotas are read from the store, not from an informer; a charge that conflicts is computed
         again until it succeeds, where upstream batches the charges of a namespace and gives up
         after three attempts.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from sim.api.admission.quota import (
    LimitedResource,
    PendingWrite,
    charged,
    uncovered,
    uncovered_scopes,
)
from sim.api.ownership import managed as ownership
from sim.api.refusals import internal
from sim.api.schema.quota_use import Amounts, texts_of
from sim.api.store import Answer, Get, Item, Op, Put
from sim.api.types import Obj
from sim.api.verbs.call import Call, found, written

Charge = Generator[Op, Answer, None]


def charge(
    call: Call,
    quotas: Sequence[str],
    obj: Obj,
    old: Obj | None,
    limited: Sequence[LimitedResource] = (),
) -> Charge:
    """Charges the quotas of these names.

    limited: what the object may use only if one of the quotas covers it
    """
    registry, namespace = call.registry, call.request.namespace
    keys = [registry.scheme.key("resourcequotas", namespace, name) for name in quotas]
    pending = PendingWrite(call.resource, obj, old, registry.wall_us())
    metadata = obj["metadata"]
    shown = metadata.get("name") or metadata.get("generateName", "")
    while keys or limited:
        items: list[Item] = []
        for key in keys:
            item = found((yield Get(key)))
            if item is not None:
                items.append(item)
        after = charged([item.obj for item in items], pending, registry.names)
        if isinstance(after, str):
            raise call.forbidden(shown, after)
        if limited:
            _check_covered(call, [item.obj for item in items], pending, limited, shown)
            limited = ()
        if call.dry_run:
            return
        keys = []
        for item, used in zip(items, after, strict=True):
            if used is not None and written((yield _put(call, item, used))) is None:
                keys.append(item.key)


def _check_covered(
    call: Call, quotas: Sequence[Obj], pending: PendingWrite, limited: Sequence[LimitedResource], shown: str
) -> None:
    """Raises if the object uses something that no quota covers."""
    missing = uncovered(quotas, pending, limited, call.registry.names)
    if missing:
        raise call.forbidden(shown, f"insufficient quota to consume: {','.join(missing)}")
    scopes = uncovered_scopes(quotas, pending, limited)
    if scopes:
        texts = (
            f"{{{each.get('scopeName')} {each.get('operator', '')} [{' '.join(each.get('values') or ())}]}}"
            for each in scopes
        )
        raise internal(f"insufficient quota to match these scopes: [{' '.join(texts)}]")


def _put(call: Call, item: Item, used: Amounts) -> Put:
    registry = call.registry
    kind = registry.scheme.resource("resourcequotas")
    status = {**item.obj["status"], "used": texts_of(used)}
    obj = {**item.obj, "metadata": {**item.obj["metadata"]}, "status": status}
    writer = ownership.Writer(
        manager=registry.names.component("apiserver"),
        api_version=kind.api_version,
        time_s=call.writer().time_s,
        subresource="status",
        tracks=call.registry.tracks,
    )
    record = ownership.on_update(kind.schema, item.managed, item.obj, obj, writer)
    return Put(item.key, obj, item.rev, record, call.request.cause)
