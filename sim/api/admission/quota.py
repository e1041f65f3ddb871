"""The resources that objects use of quotas, and whether a quota has room.

`usage` gives the amounts of one object by resource name, `total` the sum of many; `covers` decides
whether an object counts in a quota; `charged` gives the amounts in quotas after a change, or the
text of the refusal.  What is counted of a kind is in the kind's own module (`Kind.quota`).

Holds: amounts are exact; a sum keeps the style of its first part that is not zero, as upstream's
does.

Mirrors  kubernetes v1.25 apiserver pkg/quota/v1/{resources.go,generic/evaluator.go},
         plugin/pkg/admission/resourcequota/controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from sim.api.schema.quota_use import ALWAYS_US, ONE, ONLY_COUNTED, Amount, Amounts, QuotaUse, add, amounts_of
from sim.api.schema.resource import Resource
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import DECIMAL_SI, format_quantity_nano

_KINDS_MAX = 4_096  # amounts that are remembered to be shared


# --- usage ----------------------------------------------------------------------------------------


def count_name(resource: Resource) -> str:
    """The name of a resource's object count."""
    return f"count/{resource.group_resource}"


def is_counted(resource: Resource) -> bool:
    """True if a quota can limit this resource."""
    wanted = ("create", "delete", "list", "watch")
    return (
        resource.namespaced
        and resource.behavior.quota is not None
        and all(v in resource.verbs for v in wanted)
    )


def _use_of(resource: Resource) -> QuotaUse:
    """What quotas count of a resource."""
    return resource.behavior.quota or ONLY_COUNTED


def matching(resource: Resource, names: Iterable[str], naming: Names) -> list[str]:
    """The names in a quota that objects of this resource use."""
    count, owns = count_name(resource), _use_of(resource).owns
    return [name for name in names if name == count or owns(name, naming)]


def usage(resource: Resource, obj: Obj, naming: Names, wall_us: int) -> Amounts:
    """The amounts that one object uses."""
    use, counted = _use_of(resource), {count_name(resource): ONE}
    return counted | use.usage(obj, naming) if wall_us <= use.until_us(obj) else counted


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
        until_us = _use_of(resource).until_us(obj)
        used = usage(resource, obj, self._naming, until_us)
        left = used if until_us == ALWAYS_US else usage(resource, obj, self._naming, until_us + 1)
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


# --- scopes ---------------------------------------------------------------------------------------


def covers(quota: Obj, resource: Resource, obj: Obj, naming: Names) -> bool:
    """True if a quota limits objects like this one."""
    spec, status = quota.get("spec") or {}, quota.get("status") or {}
    if not matching(resource, status.get("hard") or (), naming):
        return False
    return in_scopes(spec, resource, obj)


def in_scopes(spec: Obj, resource: Resource, obj: Obj) -> bool:
    """True if an object lies in all scopes of a quota."""
    selectors, in_scope = selectors_of(spec), _use_of(resource).in_scope
    if in_scope is None:
        return not selectors
    return all(in_scope(selector, obj) for selector in selectors)


def selectors_of(spec: Obj) -> list[Obj]:
    """The scopes of a quota as requirements."""
    selectors: list[Obj] = [{"scopeName": s, "operator": "Exists"} for s in spec.get("scopes") or ()]
    return selectors + ((spec.get("scopeSelector") or {}).get("matchExpressions") or [])


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
    """The scopes that an object may lie in only if a quota is for them, and none of these is."""
    in_scope = _use_of(wish.resource).in_scope
    if in_scope is None:
        return []
    selectors = [one for quota in quotas for one in selectors_of(quota.get("spec") or {})]
    covered = [one.get("scopeName") for one in selectors if in_scope(one, wish.obj)]
    wanted = [scope for each in limited for scope in each.match_scopes if in_scope(scope, wish.obj)]
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
        problem = _use_of(resource).unspecified(obj, names)
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
