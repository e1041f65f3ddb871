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

from sim.api.admission.quota import Amounts, PendingWrite, charged, texts_of
from sim.api.ownership import managed as ownership
from sim.api.store import Answer, Get, Item, Op, Put
from sim.api.types import Obj
from sim.api.verbs.call import Call, found, written

Charge = Generator[Op, Answer, None]


def charge(call: Call, quotas: Sequence[str], obj: Obj, old: Obj | None) -> Charge:
    """Charges the quotas of these names."""
    registry, namespace = call.registry, call.request.namespace
    keys = [registry.scheme.key("resourcequotas", namespace, name) for name in quotas]
    pending = PendingWrite(call.resource, obj, old, registry.wall_us())
    while keys:
        items: list[Item] = []
        for key in keys:
            item = found((yield Get(key)))
            if item is not None:
                items.append(item)
        after = charged([item.obj for item in items], pending, registry.names)
        if isinstance(after, str):
            metadata = obj["metadata"]
            raise call.forbidden(metadata.get("name") or metadata.get("generateName", ""), after)
        if call.dry_run:
            return
        keys = []
        for item, used in zip(items, after, strict=True):
            if used is not None and written((yield _put(call, item, used))) is None:
                keys.append(item.key)


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
    )
    record = ownership.on_update(kind.schema, item.managed, item.obj, obj, writer)
    return Put(item.key, obj, item.rev, record, call.request.cause)
