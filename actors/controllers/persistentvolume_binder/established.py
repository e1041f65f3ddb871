"""The binding of a claim and a volume in an established cluster: the writes of the binder.

Turns a claim and a volume that name each other into the requests that leave both bound.

Mirrors  kubernetes v1.25 pkg/controller/volume/persistentvolume/pv_controller.go: bind (the volume,
         its status, the claim, its status).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.controllers.persistentvolume_binder.decide import (
    claim_bound_to,
    claim_in_phase,
    claim_key_of,
    volume_problem,
)
from sim.api.kinds.common.volumes.binding import claim_reference
from sim.api.objects import key_of, name_of
from sim.api.types import Obj
from sim.ident import Names


def bindings(claim: Obj, volume: Obj, names: Names) -> Iterator[dict[str, Any]]:
    """The arguments of the requests, in their order; none if the two cannot be bound."""
    if not volume["spec"].get("claimRef") or claim_key_of(volume) != key_of(claim):
        return
    if claim["spec"].get("volumeName") != name_of(volume) or volume_problem(volume, claim, names):
        return
    bound = {**volume, "spec": {**volume["spec"], "claimRef": claim_reference(claim)}}
    wanted = claim_bound_to(claim, bound, names)
    in_phase = {**bound, "status": {**(volume.get("status") or {}), "phase": "Bound"}}
    of_claim = {"namespace": claim["metadata"]["namespace"], "name": name_of(claim)}
    for resource, place, body, subresource in (
        ("persistentvolumes", {"name": name_of(volume)}, bound, ""),
        ("persistentvolumes", {"name": name_of(volume)}, in_phase, "status"),
        ("persistentvolumeclaims", of_claim, wanted, ""),
        ("persistentvolumeclaims", of_claim, claim_in_phase(wanted, "Bound", bound, names), "status"),
    ):
        yield {"resource": resource, **place, "subresource": subresource, "body": _unversioned(body)}


def _unversioned(obj: Obj) -> Obj:
    """The object without its version, so that the second write does not conflict with the first."""
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}}
