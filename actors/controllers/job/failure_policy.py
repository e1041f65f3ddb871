"""Rules of a Job's `podFailurePolicy` (gate JobPodFailurePolicy).  Pure.

Turns a policy and a failed pod into the verdict of the first matching rule: the Job fails, the
failure does not count, or it counts as without a policy.

Mirrors  kubernetes v1.25 pkg/controller/job/pod_failure_policy.go.
"""

from __future__ import annotations

from sim.api.types import Obj
from sim.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a failed pod means for its Job.

    message: why the Job fails, "" if it does not
    counts: True if the failure counts towards the back-off limit
    """

    message: str = ""
    counts: bool = True


_COUNTS = Verdict()


def verdict(policy: Obj | None, pod: Obj) -> Verdict:
    """The verdict on a pod that has failed."""
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        found = _match(rule, pod)
        if found and rule["action"] == "FailJob":
            return Verdict(f"{found} matching FailJob rule at index {index}")
        if found and rule["action"] in ("Ignore", "Count"):
            return Verdict(counts=rule["action"] == "Count")
    return _COUNTS


def _match(rule: Obj, pod: Obj) -> str:
    """Description of the part of the pod that a rule matches, "" if it does not match."""
    meta, status = pod["metadata"], pod.get("status") or {}
    named = f"{meta['namespace']}/{meta['name']}"
    codes = rule.get("onExitCodes")
    if codes is not None:
        for kind in ("containerStatuses", "initContainerStatuses"):
            for container in status.get(kind) or ():
                ended = (container.get("state") or {}).get("terminated")
                if ended is not None and _has_code(codes, container["name"], ended.get("exitCode", 0)):
                    return f"Container {container['name']} for pod {named} failed with exit code {ended['exitCode']}"
        return ""
    for condition in status.get("conditions") or ():
        for pattern in rule.get("onPodConditions") or ():
            if (condition["type"], condition["status"]) == (pattern["type"], pattern["status"]):
                return f"Pod {named} has condition {condition['type']}"
    return ""


def _has_code(codes: Obj, container: str, code: int) -> bool:
    if code == 0 or (codes.get("containerName") or container) != container:
        return False
    return (code in codes["values"]) is (codes["operator"] == "In")
