"""The drivers of a node in the API: its CSINode, and their labels and annotation on the Node.

Turns the drivers of the cluster into the CSINode that the agent creates when its Node is
registered, and the patch of the Node.

Mirrors  pkg/volume/csi/nodeinfomanager/nodeinfomanager.go; pkg/volume/csi/csi_plugin.go:
         initializeCSINode, the migrated plugins (v1.25).
Differs  the drivers of a node register together, with the CSINode's creation; upstream reads the
         CSINode first and writes once more for each driver. A driver that is away from a node stays
         registered, so mounts fail with `Unavailable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from sim.api.types import Obj
from sim.ident import Names
from sim.options.storage_drivers import StorageDriver

# In-tree drivers that v1.25 has replaced, with the gates of its defaults.
MIGRATED_PLUGINS = ("aws-ebs", "azure-disk", "azure-file", "cinder", "gce-pd", "vsphere-volume")


def csi_node(node: Obj, drivers: Iterable[StorageDriver], names: Names) -> Obj:
    """The CSINode of a registered Node."""
    meta = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": meta["name"], "uid": meta["uid"]}
    plugins = ",".join(names.in_tree(name) for name in MIGRATED_PLUGINS)
    return {
        "apiVersion": names.api_version("storage", "v1"),
        "kind": "CSINode",
        "metadata": {
            "name": meta["name"],
            "annotations": {names.annotation_migrated_plugins: plugins},
            "ownerReferences": [owner],
        },
        "spec": {"drivers": [_row(driver, meta["name"]) for driver in drivers]},
    }


def _row(driver: StorageDriver, node: str) -> Obj:
    keys = [driver.topology_key] if driver.topology_key else None
    row: Obj = {"name": driver.name, "nodeID": node, "topologyKeys": keys}
    return row | ({} if driver.limit_per_node is None else {"allocatable": {"count": driver.limit_per_node}})


def node_patch(node: Obj, drivers: Iterable[StorageDriver], zone: str, names: Names) -> Obj:
    """The patch of a Node's metadata with what its drivers report; empty if it holds that already."""
    ids: dict[str, str] = {}
    labels: dict[str, str] = {}
    held: Mapping[str, str] = node["metadata"].get("labels") or {}
    for driver in drivers:
        ids[driver.name] = node["metadata"]["name"]
        if driver.topology_key and driver.topology_key not in held and zone:
            labels[driver.topology_key] = zone
    if not ids:
        return {}
    text = msgspec.json.encode(dict(sorted(ids.items()))).decode()
    marks = node["metadata"].get("annotations") or {}
    found: Obj = {"labels": labels} if labels else {}
    if marks.get(names.annotation_csi_node_id) != text:
        found["annotations"] = {names.annotation_csi_node_id: text}
    return found


def reconciled(held: Obj, wanted: Obj) -> Obj | None:
    """The CSINode to write in place of the one that exists; None if that is right."""
    marks = held["metadata"].get("annotations") or {}
    own = wanted["metadata"]["annotations"]
    if held["spec"] == wanted["spec"] and own.items() <= marks.items():
        return None
    return {**held, "metadata": {**held["metadata"], "annotations": {**marks, **own}}, "spec": wanted["spec"]}
