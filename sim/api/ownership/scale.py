"""The owners of a workload's number of replicas, as entries of the workload and of its Scale.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/fieldmanager/scalehandler.go.
Quirk  update entries name their version, which differs in a Scale, so upstream does not match them.
         Each write to the Scale, even one that changes nothing, removes the number from them and
         adds a new entry for each remaining or new owner. New entries have no time.
"""

from __future__ import annotations

from msgspec.structs import replace

from sim.api.ownership.field_sets import LEAF, Tree, difference, of_paths
from sim.api.ownership.managed import APPLY, as_read, order
from sim.api.store import Managed

_REPLICAS = of_paths(("spec", "replicas"))


def of_scale(workload: tuple[Managed, ...], scale_version: str) -> tuple[Managed, ...]:
    """The entries that own the number, as entries of the Scale."""
    mine = [entry for entry in as_read(workload) if _owns(entry.fields)]
    return tuple([replace(entry, api_version=scale_version, fields=_REPLICAS) for entry in mine])


def of_workload(
    workload: tuple[Managed, ...], scale: tuple[Managed, ...], version: str
) -> tuple[Managed, ...]:
    """The workload's record after a write to its Scale.

    scale: the record of the Scale after the write
    version: of the workload
    """
    owners = [entry for entry in scale if _owns(entry.fields)]
    out = []
    for entry in as_read(workload):
        if _owns(entry.fields):
            match = next((owner for owner in owners if _matches(entry, owner)), None)
            if match is not None:
                owners.remove(match)
            else:
                entry = replace(entry, fields=difference(entry.fields, _REPLICAS))
        if entry.fields:
            out.append(entry)
    out += [replace(owner, api_version=version, fields=_REPLICAS, time_s=0) for owner in owners]
    return tuple(sorted(out, key=order))


def _owns(fields: Tree) -> bool:
    return "f:replicas" in fields.get("f:spec", LEAF)


def _matches(entry: Managed, owner: Managed) -> bool:
    return (
        entry.operation == owner.operation == APPLY
        and entry.manager == owner.manager
        and entry.subresource == owner.subresource
    )
