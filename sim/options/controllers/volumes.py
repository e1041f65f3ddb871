"""Options of the controller manager about volumes.

Mirrors  kubernetes v1.25 cmd/kube-controller-manager/app/options/{attachdetachcontroller,
         persistentvolumebindercontroller,ephemeralvolumecontroller}.go, app/plugins.go
         (AttemptToLoadRecycler) and pkg/volume/plugins.go (ValidateRecyclerPodTemplate).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.dataclass import dataclass
from sim.options.base import boolean, document, duration, integer, more_than, option
from sim.units import SECOND


def _a_second_or_more(value_us: int) -> str | None:
    return None if value_us >= SECOND else "must be at least 1s"


def _recycler(name: str, default: int) -> Any:
    return option(f"pv-recycler-{name}", integer, default)


def _recycler_template(given: Mapping[str, Any]) -> str | None:
    """Why the content of a file is no template of a pod that recycles; None if it is one, or {}."""
    if not given:
        return None
    if (given.get("apiVersion"), given.get("kind")) != ("v1", "Pod"):
        return "must be a Pod of v1"
    spec = given.get("spec")
    volumes = spec.get("volumes") if isinstance(spec, Mapping) else None
    if not isinstance(volumes, list) or not volumes:
        return "does not contain any volume(s)"
    if not all(isinstance(each, Mapping) and isinstance(each.get("name"), str) for each in volumes):
        return "must have volumes with names"
    return None


def _template(kind: str) -> Any:
    return option(
        f"pv-recycler-pod-template-filepath-{kind}",
        document,
        {},
        check=_recycler_template,
        effect=f"a file beside the scenario, or its content: the pod that recycles {kind} volumes",
    )


@dataclass(frozen=True)  # without slots: it is one of several bases
class VolumeFlags:
    """The options that loops of volumes read."""

    pvclaimbinder_sync_period_us: int = option(
        "pvclaimbinder-sync-period", duration, "15s", check=more_than(0)
    )
    enable_dynamic_provisioning: bool = option("enable-dynamic-provisioning", boolean, True)
    enable_hostpath_provisioner: bool = option("enable-hostpath-provisioner", boolean, False)
    recycler_minimum_hostpath: int = _recycler("minimum-timeout-hostpath", 60)
    recycler_increment_hostpath: int = _recycler("timeout-increment-hostpath", 30)
    recycler_minimum_nfs: int = _recycler("minimum-timeout-nfs", 300)
    recycler_increment_nfs: int = _recycler("increment-timeout-nfs", 30)
    recycler_template_hostpath: Mapping[str, Any] = _template("hostpath")
    recycler_template_nfs: Mapping[str, Any] = _template("nfs")
    attach_detach_reconcile_sync_period_us: int = option(
        "attach-detach-reconcile-sync-period", duration, "1m0s", check=_a_second_or_more
    )
    disable_attach_detach_reconcile_sync: bool = option(
        "disable-attach-detach-reconcile-sync", boolean, False
    )
