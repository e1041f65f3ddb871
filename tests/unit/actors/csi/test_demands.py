"""Why a driver cannot make the volume of a claim: its capabilities, parameters and data source."""

from __future__ import annotations

from typing import Any

import pytest

from actors.csi.demands import (
    INVALID_SOURCE,
    NO_CLONES,
    NO_SELECTOR,
    NO_SNAPSHOTS,
    capability_problem,
    file_system,
    is_populated,
    parameter_problem,
    source_problem,
)
from sim.api.types import Obj
from sim.ident import NAMES
from sim.options.storage_drivers import StorageDriver

NAMES_USED = NAMES["kubernetes"]
SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
COPY = {"kind": "PersistentVolumeClaim", "name": "source"}


def claim(name: str = "c", size: str = "1Gi", **spec: Any) -> Obj:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    requests = {"requests": {"storage": size}}
    return {
        "metadata": meta,
        "spec": {"storageClassName": "disk", "resources": requests, **spec},
        "status": {"phase": "Bound"},
    }


def volume(driver: str = "disk", phase: str = "Bound", **spec: Any) -> Obj:
    reference = {"namespace": "default", "name": "source", "uid": "uid-source"}
    spec = {"csi": {"driver": driver}, "claimRef": reference, **spec}
    return {"metadata": {"name": "pv"}, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({}, ""),
        ({"dataSource": COPY}, ""),
        ({"selector": {}}, NO_SELECTOR),
        ({"dataSource": SNAPSHOT}, NO_SNAPSHOTS),
        (
            {"dataSource": {**SNAPSHOT, "apiGroup": "x"}},
            "the PVC source does not belong to the right APIGroup. Expected snapshot.storage.k8s.io, Got x",
        ),
    ],
)
def test_capability_that_a_driver_lacks_refuses_a_claim(spec: dict[str, Any], problem: str) -> None:
    assert capability_problem(claim(**spec), StorageDriver("disk"), NAMES_USED) == problem


def test_driver_without_clones_refuses_copies_and_leaves_other_sources_alone() -> None:
    assert (
        capability_problem(claim(dataSource=COPY), StorageDriver("disk", clones=False), NAMES_USED)
        == NO_CLONES
    )
    assert is_populated(claim(dataSource={"apiGroup": "g", "kind": "Backup", "name": "b"}))
    assert not is_populated(claim(dataSource=COPY))


@pytest.mark.parametrize(
    ("source", "origin", "problem"),
    [
        (claim("source"), volume(), ""),
        (None, None, 'error getting PVC source (namespace "default") from api server: persistentvolumeclaim '
                     '"source" not found'),
        ({**claim("source"), "status": {"phase": "Pending"}}, None,
         "the PVC DataSource source must have a status of Bound.  Got Pending"),
        (claim("source", storageClassName=None), volume(), "the source PVC (source) storageclass cannot be empty"),
        (claim("source", "2Gi"), volume(), "error, new PVC request must be greater than or equal in size to the "
         "specified PVC data source, requested 1073741824 but source is 2147483648"),
        (claim("source"), None, INVALID_SOURCE),
        (claim("source"), volume("other"), INVALID_SOURCE),
        (claim("source"), volume(phase="Released"), INVALID_SOURCE),
        (claim("source"), volume(claimRef={"uid": "x"}), INVALID_SOURCE),
        (claim("source"), volume(volumeMode="Block"), "the source PVC and destination PVCs must have the same "
         "volume mode for cloning.  Source is Block, but new PVC requested Filesystem"),
    ],
)  # fmt: skip
def test_source_of_a_copy_has_to_be_bound_and_alike(
    source: Obj | None, origin: Obj | None, problem: str
) -> None:
    assert source_problem(claim(dataSource=COPY), "disk", source, origin) == problem


def test_parameters_of_a_class_name_one_file_system_and_no_unknown_key() -> None:
    prefix = "csi.storage.k8s.io/"
    assert file_system({"parameters": {f"{prefix}fstype": "xfs"}}, NAMES_USED) == "xfs"
    assert file_system({"parameters": {"fsType": "xfs"}}, NAMES_USED) == "xfs"
    assert file_system({}, NAMES_USED) == "ext4"
    both = {"parameters": {f"{prefix}fstype": "xfs", "fstype": "ext4"}}
    assert parameter_problem(both, NAMES_USED) == (
        f'fstype specified in parameters with both "fstype" and "{prefix}fstype" keys'
    )
    assert f'unknown parameter key "{prefix}x"' in parameter_problem(
        {"parameters": {f"{prefix}x": "1"}}, NAMES_USED
    )
    assert parameter_problem({"parameters": {"kind": "fast"}}, NAMES_USED) == ""
