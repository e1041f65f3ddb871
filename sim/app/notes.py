"""Notes before a run: settings without effect, programs without end, claims that are ignored,
expectations that hold already.

Turns a plan into sentences of one line each.

Holds: claims are reported once, however many pods mount one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.api.types import Obj
from sim.app.endless import endless_jobs, manifests_of
from sim.app.foregone import foregone
from sim.app.options import idle_options
from sim.scenario.plan.plan import Plan

NOT_WAITED_FOR = "mounts a PersistentVolumeClaim, and claims are not waited for: such pods run although their claim is missing or Pending"


def notes_of(plan: Plan) -> list[str]:
    """All notes about a plan."""
    return [*idle_options(plan.cluster), *endless_jobs(plan), *unwaited_claims(plan), *foregone(plan)]


def unwaited_claims(plan: Plan) -> list[str]:
    """One note if pods of a plan mount claims."""
    made = [manifest for manifest in manifests_of(plan) if _makes_pods_with_claims(manifest)]
    if not made:
        return []
    name = made[0].get("metadata", {}).get("name") or made[0].get("metadata", {}).get("generateName", "")
    others = f" (and {len(made) - 1} more)" if len(made) > 1 else ""
    return [f"{plan.file or plan.name}: {made[0]['kind']} {name}{others}: {NOT_WAITED_FOR}"]


def mounts_claim(pod_spec: Mapping[str, Any]) -> bool:
    """True if a volume of a pod is a claim, its own (`ephemeral`) or another."""
    volumes = pod_spec.get("volumes") or ()
    return any("persistentVolumeClaim" in volume or "ephemeral" in volume for volume in volumes)


def note_of_pod(pod: Obj) -> str:
    """The note about a pod that was created; "" if there is nothing to say."""
    metadata = pod["metadata"]
    if not mounts_claim(pod["spec"]):
        return ""
    return f"Pod {metadata['namespace']}/{metadata['name']}: {NOT_WAITED_FOR}"


def _makes_pods_with_claims(manifest: Mapping[str, Any]) -> bool:
    spec = manifest.get("spec") or {}
    if manifest.get("kind") == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    if manifest.get("kind") == "StatefulSet" and spec.get("volumeClaimTemplates"):
        return True
    pod = spec if manifest.get("kind") == "Pod" else (spec.get("template") or {}).get("spec") or {}
    return mounts_claim(pod)
