"""Who owns a workload's number of replicas, as entries of the workload and as entries of its Scale.

Turns the record beside a workload into that of its Scale, and both, after a write to the Scale, into the workload's.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/fieldmanager/scalehandler.go.
Quirk    Entries of updates name their version, which is another one in a Scale: upstream does not know them again.  Each
         write to the Scale, even one that changes nothing, takes the number out of them and gives whoever still owns it
         a new entry, as it does to who comes by it.  New entries have no time.
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
    """The workload's record after a write that left the Scale with this one.  version: of the workload."""
    owners = [entry for entry in scale if _owns(entry.fields)]
    out = []
    for entry in as_read(workload):
        if _owns(entry.fields):
            again = next((owner for owner in owners if _is_known_again(entry, owner)), None)
            if again is not None:
                owners.remove(again)
            else:
                entry = replace(entry, fields=difference(entry.fields, _REPLICAS))
        if entry.fields:
            out.append(entry)
    out += [replace(owner, api_version=version, fields=_REPLICAS, time_s=0) for owner in owners]
    return tuple(sorted(out, key=order))


def _owns(fields: Tree) -> bool:
    return "f:replicas" in fields.get("f:spec", LEAF)


def _is_known_again(entry: Managed, owner: Managed) -> bool:
    return (
        entry.operation == owner.operation == APPLY
        and entry.manager == owner.manager
        and entry.subresource == owner.subresource
    )
