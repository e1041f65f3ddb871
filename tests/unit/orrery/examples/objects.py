"""Nodes and pods for the decisions of the examples."""

from __future__ import annotations

from typing import Any

from sim.api.types import Obj

CREATED = "2026-01-01T00:00:00Z"
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def node(name: str, cpu: int = 4, ready: bool = True, taint: str = "", **meta: Any) -> Obj:
    """A node of so many processors, with 8Gi and 10 pods."""
    status: Obj = {"allocatable": {"cpu": str(cpu), "memory": "8Gi", "pods": "10"}}
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    return {
        "metadata": {"name": name, "creationTimestamp": CREATED, **meta},
        "spec": {"taints": taints},
        "status": {**status, **(READY if ready else {})},
    }


def pod(
    name: str, on: str = "", cpu: str = "1", owner: str = "ReplicaSet/web", of: Obj | None = None, **meta: Any
) -> Obj:
    """A pod on a node, or one that found none.  of: more fields of its spec"""
    kind, _, owner_name = owner.partition("/")
    owners = [{"kind": kind, "name": owner_name, "controller": True}] if owner else []
    container = {"name": "c", "image": "r/web:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "creationTimestamp": CREATED,
            "ownerReferences": owners,
            **meta,
        },
        "spec": {"containers": [container], **({"nodeName": on} if on else {}), **(of or {})},
        "status": {} if on else UNSCHEDULABLE,
    }
