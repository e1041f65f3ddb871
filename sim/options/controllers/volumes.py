"""Options of the controller manager about volumes.

Mirrors  kubernetes v1.25 cmd/kube-controller-manager/app/options/{attachdetachcontroller,
         persistentvolumebindercontroller,ephemeralvolumecontroller}.go, app/plugins.go
         (AttemptToLoadRecycler) and pkg/volume/plugins.go (ValidateRecyclerPodTemplate).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.options.base import boolean, document, duration, integer, more_than, option
from sim.options.controllers.networks import NodeNetworkFlags
from sim.units import SECOND


def _a_second_or_more(value_us: int) -> str | None:
    return None if value_us >= SECOND else "must be at least 1s"


def _recycler(name: str, default: int, what: str) -> Any:
    return option(f"pv-recycler-{name}", integer, default, f"seconds: {what}")


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
        f"a file beside the scenario, or its content: the pod that recycles {kind} volumes",
        check=_recycler_template,
    )


@dataclass(frozen=True, slots=True)
class VolumeFlags(NodeNetworkFlags):
    """The options that loops of volumes read."""

    pvclaimbinder_sync_period_us: int = option(
        "pvclaimbinder-sync-period",
        duration,
        "15s",
        "time between syncs of all volumes and claims, which are the retries of what has failed",
        unit="us",
        check=more_than(0),
    )
    enable_dynamic_provisioning: bool = option(
        "enable-dynamic-provisioning", boolean, True, "false: no volume is provisioned for a claim"
    )
    enable_hostpath_provisioner: bool = option(
        "enable-hostpath-provisioner",
        boolean,
        False,
        "true: classes of the provisioner host-path get volumes",
    )
    recycler_minimum_hostpath: int = _recycler(
        "minimum-timeout-hostpath", 60, "least deadline of a pod that recycles a hostPath volume"
    )
    recycler_increment_hostpath: int = _recycler(
        "timeout-increment-hostpath", 30, "deadline of a pod that recycles a hostPath volume, for each Gi"
    )
    recycler_minimum_nfs: int = _recycler(
        "minimum-timeout-nfs", 300, "least deadline of a pod that recycles an NFS volume"
    )
    recycler_increment_nfs: int = _recycler(
        "increment-timeout-nfs", 30, "deadline of a pod that recycles an NFS volume, for each Gi"
    )
    recycler_template_hostpath: Mapping[str, Any] = _template("hostpath")
    recycler_template_nfs: Mapping[str, Any] = _template("nfs")
    attach_detach_reconcile_sync_period_us: int = option(
        "attach-detach-reconcile-sync-period",
        duration,
        "1m0s",
        "time between comparisons of attached volumes with what the drivers say",
        unit="us",
        check=_a_second_or_more,
    )
    disable_attach_detach_reconcile_sync: bool = option(
        "disable-attach-detach-reconcile-sync", boolean, False, "true: no such comparisons"
    )
