"""Objects of a cluster as tables: one row an object, with the columns that people ask for.

Pure functions from stored objects to columns, and one that makes a polars frame of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sim.api.objects import condition_status, controller_of, is_deleting, is_ready
from sim.api.types import Obj
from sim.errors import InputError
from sim.ident import Names
from sim.units import SECOND, parse_time, quantity_milli, quantity_value

if TYPE_CHECKING:
    import polars

Row = dict[str, Any]


def frame(rows: Sequence[Row], columns: Mapping[str, type]) -> polars.DataFrame:
    """A polars frame of rows, with these columns also if there is no row.

    Raises InputError if polars is not installed.
    """
    try:
        import polars
    except ModuleNotFoundError:
        raise InputError("frames need the package polars", "", "pip install 'orrery[lab]'") from None
    kinds: Mapping[type, Any] = {
        str: polars.String,
        int: polars.Int64,
        float: polars.Float64,
        bool: polars.Boolean,
    }
    return polars.DataFrame(rows, schema={name: kinds[kind] for name, kind in columns.items()}, orient="row")


PODS: Mapping[str, type] = {
    "namespace": str, "name": str, "phase": str, "ready": bool, "terminating": bool, "restarts": int,
    "node": str, "zone": str, "owner": str, "priority": int, "created_s": float,
}  # fmt: skip


def pod_row(pod: Obj, zone_of: Mapping[str, str], start_us: int) -> Row:
    """A pod.  start_us: the Unix time at which virtual time began"""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    node = spec.get("nodeName", "")
    owner = controller_of(pod)
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "phase": status.get("phase", ""),
        "ready": is_ready(pod),
        "terminating": is_deleting(pod),
        "restarts": sum(each.get("restartCount", 0) for each in status.get("containerStatuses") or ()),
        "node": node,
        "zone": zone_of.get(node, ""),
        "owner": f"{owner['kind']}/{owner['name']}" if owner else "",
        "priority": spec.get("priority", 0),
        "created_s": _seconds(metadata.get("creationTimestamp"), start_us),
    }


NODES: Mapping[str, type] = {
    "name": str, "zone": str, "ready": str, "cordoned": bool, "taints": str, "pods": int, "cpu": float,
    "memory_mib": float, "created_s": float,
}  # fmt: skip


def node_row(node: Obj, names: Names, pods_on: Mapping[str, int], start_us: int) -> Row:
    """A node.  pods_on: the number of pods by node"""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    capacity = status.get("capacity") or {}
    return {
        "name": metadata["name"],
        "zone": (metadata.get("labels") or {}).get(names.label_zone, ""),
        "ready": condition_status(node, "Ready"),
        "cordoned": bool(spec.get("unschedulable")),
        "taints": ",".join(f"{taint['key']}:{taint['effect']}" for taint in spec.get("taints") or ()),
        "pods": pods_on.get(metadata["name"], 0),
        "cpu": quantity_milli(str(capacity.get("cpu", "0"))) / 1000,
        "memory_mib": quantity_value(str(capacity.get("memory", "0"))) / (1 << 20),
        "created_s": _seconds(metadata.get("creationTimestamp"), start_us),
    }


EVENTS: Mapping[str, type] = {
    "time_s": float, "type": str, "reason": str, "object": str, "message": str, "count": int, "source": str,
    "namespace": str,
}  # fmt: skip


def event_row(event: Obj, start_us: int) -> Row:
    """An event, at the time of its last occurrence."""
    about = event.get("involvedObject") or {}
    when = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    series = event.get("series") or {}
    return {
        "time_s": _seconds(series.get("lastObservedTime") or when, start_us),
        "type": event.get("type", ""),
        "reason": event.get("reason", ""),
        "object": f"{about.get('kind', '')}/{about.get('name', '')}",
        "message": event.get("message", ""),
        "count": event.get("count") or series.get("count") or 1,
        "source": event.get("reportingComponent") or (event.get("source") or {}).get("component", ""),
        "namespace": event["metadata"].get("namespace", ""),
    }


LEASES: Mapping[str, type] = {
    "namespace": str, "name": str, "holder": str, "renewed_s": float, "acquired_s": float, "duration_s": int,
    "transitions": int,
}  # fmt: skip


def lease_row(lease: Obj, start_us: int) -> Row:
    """A lease; times are seconds since the start of the run."""
    spec = lease.get("spec") or {}
    return {
        "namespace": lease["metadata"].get("namespace", ""),
        "name": lease["metadata"]["name"],
        "holder": spec.get("holderIdentity", ""),
        "renewed_s": _seconds(spec.get("renewTime"), start_us),
        "acquired_s": _seconds(spec.get("acquireTime"), start_us),
        "duration_s": spec.get("leaseDurationSeconds"),
        "transitions": spec.get("leaseTransitions", 0),
    }


def objects_rows(objects: Sequence[Obj], row: Callable[[Obj], Row]) -> list[Row]:
    """The rows of objects in the order of namespace and name."""

    def place(obj: Obj) -> tuple[str, str]:
        return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]

    return [row(obj) for obj in sorted(objects, key=place)]


def _seconds(time: str | None, start_us: int) -> float | None:
    return None if not time else (parse_time(time) - start_us) / SECOND
