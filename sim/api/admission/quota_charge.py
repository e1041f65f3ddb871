"""Charging what a write uses up to the quotas of its namespace, before the write itself.

Turns an object about to be stored into writes to the status of quotas, or a refusal.

Holds: a quota is never charged beyond its limits, however many writes meet: each charge is written over exactly what it
was worked out from.
Quirk: a write that fails after its charge (a name taken) has been charged; the next recount corrects it.

Mirrors  kubernetes v1.25 apiserver pkg/admission/plugin/resourcequota/{controller.go,resource_access.go}.
Differs  quotas are read from the store, not from an informer; a charge that meets another is worked out anew until it
         lands, where upstream gathers charges of a namespace and gives up after three tries.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from sim.api.admission.quota import Amounts, Wish, charged, texts_of
from sim.api.ownership import managed as ownership
from sim.api.store import Answer, Get, Item, Op, Put
from sim.api.types import Obj
from sim.api.verbs.call import Call, found, written

Charge = Generator[Op, Answer, None]


def charge(call: Call, quotas: Sequence[str], obj: Obj, old: Obj | None) -> Charge:
    """Charge the quotas of these names."""
    registry, namespace = call.registry, call.request.namespace
    keys = [registry.scheme.key("resourcequotas", namespace, name) for name in quotas]
    wish = Wish(call.resource, obj, old, registry.wall_us())
    while keys:
        items: list[Item] = []
        for key in keys:
            item = found((yield Get(key)))
            if item is not None:
                items.append(item)
        after = charged([item.obj for item in items], wish, registry.names)
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
