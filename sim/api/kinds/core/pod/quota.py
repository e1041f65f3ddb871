"""What quotas count of pods: the requests and limits of their containers, and their scopes.

Mirrors  kubernetes v1.25 pkg/quota/v1/evaluator/core/pods.go.
Differs  pods of claims with an ephemeral volume are counted by their claims alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.api.schema.quota_use import ALWAYS_US, ONE, Amounts, QuotaUse, add, amounts_of, most
from sim.api.types import Obj
from sim.ident import Names
from sim.units import SECOND, parse_time

_PLAIN = ("cpu", "memory", "ephemeral-storage")
_NAMES = (*_PLAIN, *(f"{side}.{name}" for side in ("requests", "limits") for name in _PLAIN), "pods")
_HUGE = ("hugepages-", "requests.hugepages-")
_EXPLICIT = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_DONE = ("Failed", "Succeeded")
_NEVER_US = -1


# --- usage ----------------------------------------------------------------------------------------


def _owns(name: str, names: Names) -> bool:
    rest = name.removeprefix("requests.")
    extended = rest is not name and "/" in rest and f"{names.domain}/" not in rest
    return name in _NAMES or name.startswith(_HUGE) or extended


def _until_us(pod: Obj) -> int:
    """The time until which a pod uses compute resources.

    Quirk: the grace period counts twice, because deletionTimestamp includes it.
    """
    if (pod.get("status") or {}).get("phase") in _DONE:
        return _NEVER_US
    meta = pod["metadata"]
    since, grace_s = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    return ALWAYS_US if since is None or grace_s is None else parse_time(since) + grace_s * SECOND


def _frees(old: Obj, new: Obj, wall_us: int) -> bool:
    return wall_us <= _until_us(old) and not wall_us <= _until_us(new)


def _usage(pod: Obj, _: Names) -> Amounts:
    spec = pod.get("spec") or {}
    total: Amounts = {"pods": ONE}
    for side in ("requests", "limits"):
        used = used_by_containers(spec, side)
        if spec.get("overhead"):
            used = add(used, amounts_of(spec["overhead"]))
        total |= _named(used, side)
    return total


def used_by_containers(spec: Obj, side: str) -> Amounts:
    """The larger of the sum of a pod's containers and of any init container; the overhead is not in
    it.

    side: "requests" or "limits"
    """
    used: Amounts = {}
    for container in spec.get("containers") or ():
        used = add(used, _resources(container, side))
    for container in spec.get("initContainers") or ():
        used = most(used, _resources(container, side))
    return used


def _resources(container: Obj, side: str) -> Amounts:
    return amounts_of((container.get("resources") or {}).get(side))


def _named(amounts: Amounts, side: str) -> Amounts:
    """Amounts of containers by the names that quotas use."""
    out: Amounts = {}
    for name, amount in amounts.items():
        if name in _PLAIN:
            out[f"{side}.{name}"] = amount
        if side == "requests":
            if name in _PLAIN or name.startswith("hugepages-"):
                out[name] = amount
            if name.startswith("hugepages-") or "/" in name:
                out[f"requests.{name}"] = amount
    return out


def _unspecified(pod: Obj, names: Sequence[str]) -> str:
    """The error for containers that do not specify a resource that a quota requires."""
    required = [name for name in names if name in _EXPLICIT]
    missing: dict[str, list[str]] = {}
    spec = pod.get("spec") or {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        given = {**_named(_resources(container, "requests"), "requests")}
        given |= _named(_resources(container, "limits"), "limits")
        for name in required:
            if name not in given:
                missing.setdefault(name, []).append(container["name"])
    if not missing:
        return ""
    return "must specify " + "; ".join(f"{n} for: {','.join(sorted(missing[n]))}" for n in sorted(missing))


# --- scopes ---------------------------------------------------------------------------------------


def _in_scope(selector: Obj, pod: Obj) -> bool:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    deadline = spec.get("activeDeadlineSeconds")
    match selector.get("scopeName"):
        case "Terminating":
            return deadline is not None and deadline >= 0
        case "NotTerminating":
            return deadline is None or deadline < 0
        case "BestEffort":
            return bool(status.get("qosClass") == "BestEffort")
        case "NotBestEffort":
            return bool(status.get("qosClass") != "BestEffort")
        case "PriorityClass":
            return _matches_class(selector, spec.get("priorityClassName", ""))
        case "CrossNamespacePodAffinity":
            return _reaches_across(spec.get("affinity") or {})
        case _:
            return False


def _matches_class(selector: Obj, name: str) -> bool:
    values = selector.get("values") or ()
    match selector.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)


def _reaches_across(affinity: Obj) -> bool:
    for kind in ("podAffinity", "podAntiAffinity"):
        given = affinity.get(kind) or {}
        terms = list(given.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        soft = given.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [term.get("podAffinityTerm") or {} for term in soft]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


# The requests of a pod cannot change, so updates are not charged (pods.go, Handles).
QUOTA = QuotaUse(_owns, _usage, _until_us, frees=_frees, in_scope=_in_scope, unspecified=_unspecified)
