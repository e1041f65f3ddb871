"""The resources that objects use of quotas, and whether a quota has room.

`usage` gives the amounts of one object by resource name, `total` the sum of many; `covers` decides
whether an object counts in a quota; `charged` gives the amounts in quotas after a change, or the
text of the refusal.

Holds: amounts are exact; a sum keeps the style of its first part that is not zero, as upstream's
does.

Mirrors  kubernetes v1.25
         pkg/quota/v1/evaluator/core/{pods,services,persistent_volume_claims,registry}.go, apiserver
         pkg/quota/v1/{resources.go,generic/evaluator.go},
         plugin/pkg/admission/resourcequota/controller.go.
Differs  pods of claims with an ephemeral volume are counted by their claims alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from sim.api.schema.resource import Resource
from sim.api.types import Obj
from sim.ident import Names
from sim.units import (
    DECIMAL_SI,
    NANO,
    SECOND,
    format_quantity_nano,
    parse_time,
    quantity_nano,
    quantity_style,
)

Amount = tuple[int, str]  # nano units and style
Amounts = dict[str, Amount]
ONE: Amount = (NANO, DECIMAL_SI)
NOTHING: Amount = (0, DECIMAL_SI)

# Core resources that may be named without "count/" (legacyObjectCountAliases).
_ALIASES = (
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
)  # fmt: skip
# Resources with charged updates; the requests of a pod cannot change (evaluator/core/pods.go:
# Handles).
CHARGED_AGAIN = ("services", "persistentvolumeclaims")
# Resources with updates that may free something: a pod ends, a Service gives up node ports.
FREED = ("pods", "services")
_IGNORED = ("events", "bindings")  # DefaultIgnoredResources, and what is not stored
_EXPLICIT = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
_PLAIN = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = (*_PLAIN, *(f"{side}.{name}" for side in ("requests", "limits") for name in _PLAIN), "pods")
_HUGE = ("hugepages-", "requests.hugepages-")
_DONE = ("Failed", "Succeeded")
_NEVER_US, _ALWAYS_US = -1, 1 << 62
_KINDS_MAX = 4_096  # amounts that are remembered to be shared


# --- amounts --------------------------------------------------------------------------------------


def amounts_of(texts: Mapping[str, Any] | None) -> Amounts:
    """Amounts from quantity texts."""
    return {name: (quantity_nano(text), quantity_style(text)) for name, text in (texts or {}).items()}


def texts_of(amounts: Mapping[str, Amount]) -> dict[str, str]:
    """Quantity texts from amounts, by sorted name."""
    return {name: format_quantity_nano(*amount) for name, amount in sorted(amounts.items())}


def _plus(a: Amount | None, b: Amount) -> Amount:
    if a is None or not a[0]:
        return b
    return a[0] + b[0], a[1]


def add(a: Mapping[str, Amount], b: Mapping[str, Amount]) -> Amounts:
    """The sum of two sets of amounts."""
    return {**a, **{name: _plus(a.get(name), amount) for name, amount in b.items()}}


def _most(a: Mapping[str, Amount], b: Mapping[str, Amount]) -> Amounts:
    return {**b, **{name: max(amount, b.get(name, amount), key=lambda x: x[0]) for name, amount in a.items()}}


# --- usage ----------------------------------------------------------------------------------------


def count_name(resource: Resource) -> str:
    """The name of a resource's object count."""
    return f"count/{resource.group_resource}"


def is_counted(resource: Resource) -> bool:
    """True if a quota can limit this resource."""
    wanted = ("create", "delete", "list", "watch")
    return resource.namespaced and resource.rule not in _IGNORED and all(v in resource.verbs for v in wanted)


def matching(resource: Resource, names: Iterable[str], naming: Names) -> list[str]:
    """The names in a quota that objects of this resource use."""
    return [name for name in names if _is_of(resource, name, naming)]


def _is_of(resource: Resource, name: str, naming: Names) -> bool:
    if name == count_name(resource):
        return True
    if resource.group:
        return False
    plural = resource.rule
    if plural == "pods":
        rest = name.removeprefix("requests.")
        extended = rest is not name and "/" in rest and f"{naming.domain}/" not in rest
        return name in _POD_NAMES or name.startswith(_HUGE) or extended
    if plural == "services":
        return name in ("services", "services.loadbalancers", "services.nodeports")
    if plural == "persistentvolumeclaims":
        by_class = f".storageclass.storage.{naming.group_domain}/"
        return name in ("persistentvolumeclaims", "requests.storage") or by_class in name
    return name == plural and plural in _ALIASES


def usage(resource: Resource, obj: Obj, naming: Names, wall_us: int) -> Amounts:
    """The amounts that one object uses."""
    counted = {count_name(resource): ONE}
    if resource.group:
        return counted
    plural = resource.rule
    if plural == "pods":
        return counted | (_pod_usage(obj) if counts(obj, wall_us) else {})
    if plural == "services":
        return counted | _service_usage(obj)
    if plural == "persistentvolumeclaims":
        return counted | _claim_usage(obj, naming)
    return counted | ({plural: ONE} if plural in _ALIASES else {})


def counts(pod: Obj, wall_us: int) -> bool:
    """True if a pod still uses compute resources."""
    return wall_us <= _counts_until_us(pod)


def _counts_until_us(pod: Obj) -> int:
    """The time until which a pod uses compute resources.

    Quirk: the grace period counts twice, because deletionTimestamp includes it.
    """
    if (pod.get("status") or {}).get("phase") in _DONE:
        return _NEVER_US
    meta = pod["metadata"]
    since, grace_s = meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds")
    return _ALWAYS_US if since is None or grace_s is None else parse_time(since) + grace_s * SECOND


class Share(NamedTuple):
    """The amounts that one object uses until a time and after it; equal amounts are one dict."""

    used: Amounts
    left: Amounts
    until_us: int


class Shares:
    """Makes the shares of objects."""

    def __init__(self, naming: Names) -> None:
        self._naming = naming
        self._known: dict[tuple[tuple[str, Amount], ...], Amounts] = {}

    def of(self, resource: Resource, obj: Obj) -> Share:
        """The share of one object."""
        until_us = _counts_until_us(obj) if resource.rule == "pods" and not resource.group else _ALWAYS_US
        used = usage(resource, obj, self._naming, until_us)
        left = used if until_us == _ALWAYS_US else usage(resource, obj, self._naming, until_us + 1)
        return Share(self._one(used), self._one(left), until_us)

    def _one(self, amounts: Amounts) -> Amounts:
        if len(self._known) >= _KINDS_MAX:
            self._known.clear()
        return self._known.setdefault(tuple(amounts.items()), amounts)


def total(shares: Iterable[Share], wall_us: int) -> Amounts:
    """The sum of all shares; equal ones are counted instead of added one by one."""
    found: dict[int, list[Any]] = {}
    for used, left, until_us in shares:
        amounts = used if wall_us <= until_us else left
        entry = found.get(id(amounts))
        if entry is None:
            found[id(amounts)] = [amounts, 1]
        else:
            entry[1] += 1
    summed: Amounts = {}
    for amounts, count in found.values():
        summed = add(summed, {name: (nano * count, style) for name, (nano, style) in amounts.items()})
    return summed


def _pod_usage(pod: Obj) -> Amounts:
    spec = pod.get("spec") or {}
    total: Amounts = {"pods": ONE}
    for side in ("requests", "limits"):
        used: Amounts = {}
        for container in spec.get("containers") or ():
            used = add(used, _resources(container, side))
        for container in spec.get("initContainers") or ():
            used = _most(used, _resources(container, side))
        if spec.get("overhead"):
            used = add(used, amounts_of(spec["overhead"]))
        total |= _named(used, side)
    return total


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


def service_type(service: Obj) -> str:
    """The type of a Service as far as quotas distinguish types."""
    kind = str((service.get("spec") or {}).get("type", ""))
    return kind if kind in ("NodePort", "LoadBalancer") else ""


def _service_usage(service: Obj) -> Amounts:
    spec = service.get("spec") or {}
    kind, ports = spec.get("type"), (len(spec.get("ports") or ()) * NANO, DECIMAL_SI)
    balanced = kind == "LoadBalancer"
    with_ports = kind == "NodePort" or (balanced and spec.get("allocateLoadBalancerNodePorts") is not False)
    if balanced and not with_ports:
        ports = (sum(bool(port.get("nodePort")) for port in spec.get("ports") or ()) * NANO, DECIMAL_SI)
    return {
        "services": ONE,
        "services.loadbalancers": ONE if balanced else NOTHING,
        "services.nodeports": ports if balanced or with_ports else NOTHING,
    }


def _claim_usage(claim: Obj, naming: Names) -> Amounts:
    spec = claim.get("spec") or {}
    out = {"persistentvolumeclaims": ONE}
    annotations = claim["metadata"].get("annotations") or {}
    by_class = annotations.get(naming.annotation_beta_storage_class) or spec.get("storageClassName") or ""
    prefix = f"{by_class}.storageclass.storage.{naming.group_domain}/"
    if by_class:
        out[prefix + "persistentvolumeclaims"] = ONE
    storage = amounts_of((spec.get("resources") or {}).get("requests")).get("storage")
    if storage is not None:
        out["requests.storage"] = storage
        if by_class:
            out[prefix + "requests.storage"] = storage
    return out


# --- scopes ---------------------------------------------------------------------------------------


def covers(quota: Obj, resource: Resource, obj: Obj, naming: Names) -> bool:
    """True if a quota limits objects like this one."""
    spec, status = quota.get("spec") or {}, quota.get("status") or {}
    if not matching(resource, status.get("hard") or (), naming):
        return False
    return in_scopes(spec, resource, obj)


def in_scopes(spec: Obj, resource: Resource, obj: Obj) -> bool:
    """True if an object lies in all scopes of a quota."""
    selectors = selectors_of(spec)
    if resource.rule != "pods" or resource.group:
        return not selectors
    return all(_matches(selector, obj) for selector in selectors)


def selectors_of(spec: Obj) -> list[Obj]:
    """The scopes of a quota as requirements."""
    selectors: list[Obj] = [{"scopeName": s, "operator": "Exists"} for s in spec.get("scopes") or ()]
    return selectors + ((spec.get("scopeSelector") or {}).get("matchExpressions") or [])


def _matches(selector: Obj, pod: Obj) -> bool:
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


# --- resources that need a quota ------------------------------------------------------------------


class LimitedResource(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What may be used only if a quota covers it (the plugin's configuration).

    api_group, resource: of the objects
    match_contains: parts of the names of amounts
    match_scopes: scopes of objects, as in the scopeSelector of a quota
    """

    resource: str
    api_group: str = ""
    match_contains: tuple[str, ...] = ()
    match_scopes: tuple[Obj, ...] = ()

    def is_for(self, resource: Resource) -> bool:
        """True if objects of this resource are meant."""
        return (self.api_group, self.resource) == (resource.group, resource.plural)


def uncovered(
    quotas: Sequence[Obj], wish: PendingWrite, limited: Iterable[LimitedResource], naming: Names
) -> list[str]:
    """The amounts that an object may use only if a quota limits them, and none of these does."""
    parts = [part for each in limited for part in each.match_contains]
    held = [q for q in quotas if covers(q, wish.resource, wish.obj, naming)]
    covered = {name: None for quota in held for name in quota["status"]["hard"]}
    used = usage(wish.resource, wish.obj, naming, wish.wall_us)
    return sorted(name for name in used if name not in covered and any(part in name for part in parts))


def uncovered_scopes(
    quotas: Sequence[Obj], wish: PendingWrite, limited: Iterable[LimitedResource]
) -> list[Obj]:
    """The scopes that a pod may lie in only if a quota is for them, and none of these is."""
    if wish.resource.rule != "pods" or wish.resource.group:
        return []
    selectors = [one for quota in quotas for one in selectors_of(quota.get("spec") or {})]
    covered = [one.get("scopeName") for one in selectors if _matches(one, wish.obj)]
    wanted = [scope for each in limited for scope in each.match_scopes if _matches(scope, wish.obj)]
    return [scope for scope in wanted if scope.get("scopeName") not in covered]


# --- charging -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """An object as it would be stored, and the stored one (None for a create)."""

    resource: Resource
    obj: Obj
    old: Obj | None
    wall_us: int


def charged(quotas: Sequence[Obj], wish: PendingWrite, naming: Names) -> list[Amounts | None] | str:
    """The used amounts of each quota after a write (None: unchanged), or why it is refused."""
    resource, obj = wish.resource, wish.obj
    concerned: list[int] = []
    for index, quota in enumerate(quotas):
        if not covers(quota, resource, obj, naming):
            continue
        status = quota["status"]
        names = sorted(matching(resource, status["hard"], naming))
        problem = _unspecified(resource, obj, names)
        if problem:
            return f"failed quota: {quota['metadata']['name']}: {problem}"
        if any(name not in (status.get("used") or {}) for name in names):
            return f"status unknown for quota: {quota['metadata']['name']}, resources: {','.join(names)}"
        concerned.append(index)
    if not concerned:
        return [None] * len(quotas)
    more = usage(resource, obj, naming, wish.wall_us)
    if wish.old is not None:
        before = usage(resource, wish.old, naming, wish.wall_us)
        more = {
            name: (amount - before.get(name, (0, ""))[0], style) for name, (amount, style) in more.items()
        }
    more = {name: amount for name, amount in more.items() if amount[0] > 0}
    found: list[Amounts | None] = [None] * len(quotas)
    for index in concerned:
        after = _after(quotas[index], more)
        if isinstance(after, str):
            return after
        found[index] = after
    return found


def _after(quota: Obj, more: Amounts) -> Amounts | str | None:
    hard, used = amounts_of(quota["status"]["hard"]), amounts_of(quota["status"].get("used"))
    requested = {name: amount for name, amount in more.items() if name in hard}
    if not requested:
        return None
    after = add(used, requested)
    over = sorted(name for name in requested if after[name][0] > hard[name][0])
    if over:
        parts = (("requested", requested), ("used", used), ("limited", hard))
        shown = (f"{word}: {_print(amounts, over)}" for word, amounts in parts)
        return f"exceeded quota: {quota['metadata']['name']}, {', '.join(shown)}"
    return after


def _print(amounts: Amounts, names: Sequence[str]) -> str:
    return ",".join(f"{name}={format_quantity_nano(*amounts.get(name, (0, DECIMAL_SI)))}" for name in names)


def _unspecified(resource: Resource, obj: Obj, names: Sequence[str]) -> str:
    """The error for containers that do not specify a resource that a quota requires."""
    if resource.rule != "pods" or resource.group:
        return ""
    required = [name for name in names if name in _EXPLICIT]
    missing: dict[str, list[str]] = {}
    spec = obj.get("spec") or {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        named = {**_named(_resources(container, "requests"), "requests")}
        named |= _named(_resources(container, "limits"), "limits")
        for name in required:
            if name not in named:
                missing.setdefault(name, []).append(container["name"])
    if not missing:
        return ""
    return "must specify " + "; ".join(f"{n} for: {','.join(sorted(missing[n]))}" for n in sorted(missing))
