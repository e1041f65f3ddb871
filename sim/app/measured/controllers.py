"""What controllers show of the present state: endpoint slices, volumes and claims.

Turns stored objects into values by family and labels.

Mirrors  kubernetes v1.25 pkg/controller/endpointslice/metrics/cache.go,
         endpointslicemirroring/metrics/cache.go, volume/persistentvolume/metrics/metrics.go.
Differs  the values follow from the stored slices, not from the last syncs of a process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from actors.storage.bucket import Bucket
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import Names
from sim.kernel.meters import Meters
from sim.options.controllers.manager import ControllerManagerOptions

NO_PLUGIN = "N/A"
# The plugins of in-tree sources that are no drivers, by the field of a volume.
PLUGINS = {
    "hostPath": "host-path",
    "local": "local-volume",
    "nfs": "nfs",
    "iscsi": "iscsi",
    "fc": "fc",
    "csi": "csi",
}


def show_controllers(
    bucket: Callable[[str], Bucket], scheme: Scheme, options: ControllerManagerOptions, shown: Meters
) -> None:
    """Show the present state."""

    def objects(plural: str) -> Iterator[Obj]:
        items = bucket(scheme.prefix(plural)).items
        return (items[key].obj for key in sorted(items))

    _show_slices([*objects("endpointslices")], scheme.names, options, shown)
    for volume in objects("persistentvolumes"):
        spec, bound = volume["spec"], (volume.get("status") or {}).get("phase") == "Bound"
        mode = spec.get("volumeMode", "Filesystem")
        shown.count("pv_collector_total_pv_count", (plugin_of(spec, scheme.names), mode))
        name = "bound" if bound else "unbound"
        shown.count(f"pv_collector_{name}_pv_count", (spec.get("storageClassName", ""),))
    for claim in objects("persistentvolumeclaims"):
        name = "bound" if (claim.get("status") or {}).get("phase") == "Bound" else "unbound"
        shown.count(f"pv_collector_{name}_pvc_count", (claim["metadata"]["namespace"],))


def plugin_of(spec: Obj, names: Names) -> str:
    """The name of the plugin of a volume (GetFullQualifiedPluginNameForVolume)."""
    for field, plugin in PLUGINS.items():
        if field in spec:
            driver = f":{spec[field]['driver']}" if field == "csi" else ""
            return names.in_tree(plugin) + driver
    return NO_PLUGIN


def _show_slices(slices: list[Obj], names: Names, options: ControllerManagerOptions, shown: Meters) -> None:
    managers = {
        names.managed_by_endpointslice_controller: (
            "endpoint_slice_controller_",
            options.max_endpoints_per_slice,
        ),
        names.managed_by_mirroring_controller: (
            "endpoint_slice_mirroring_controller_",
            options.mirroring_max_endpoints_per_subset,
        ),
    }
    # By manager, object and ports the number of endpoints.
    found: dict[str, dict[tuple[str, str], dict[str, int]]] = {}
    counts: dict[str, int] = {}
    for piece in slices:
        meta = piece["metadata"]
        labels = meta.get("labels") or {}
        manager = labels.get(names.label_managed_by, "")
        if manager not in managers:
            continue
        counts[manager] = counts.get(manager, 0) + 1
        about = meta["namespace"], labels.get(names.label_service_name, "")
        ports = found.setdefault(manager, {}).setdefault(about, {})
        key = f"{piece['addressType']} {piece.get('ports')}"
        ports[key] = ports.get(key, 0) + len(piece.get("endpoints") or ())
    for manager, (prefix, limit) in managers.items():
        if manager not in found:
            continue
        shown.set(f"{prefix}num_endpoint_slices", (), counts[manager])
        of_all = found[manager].values()
        shown.set(f"{prefix}endpoints_desired", (), sum(sum(ports.values()) for ports in of_all))
        desired = [sum(-(-count // limit) for count in ports.values()) for ports in of_all]
        # Quirk: a Service without endpoints has a slice without endpoints.
        shown.set(f"{prefix}desired_endpoint_slices", (), sum(max(1, count) for count in desired))
