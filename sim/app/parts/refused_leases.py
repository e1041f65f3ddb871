"""Candidates for leader that are refused their lease: no replica leads, and nothing else says why.

Turns the decisions "refused-lease" of a run into sentences for its report, and the options of a
plan into notes before the run: upstream's roles allow a component the lease of its default name
only (bootstrappolicy/policy.go, the rules "Needed for leader election").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sim.ident import NAMES
from sim.options.base import raw_option
from sim.units import MS, Virtual, format_duration

if TYPE_CHECKING:
    from sim.kernel import Kernel
    from sim.scenario.plan.plan import Plan

LOCKS = ("leases", "endpointsleases")  # kinds of lock that the roles allow
LEASES_MAX = 20  # refusals kept for the report of a run
_GRANTS = ("RoleBinding", "ClusterRoleBinding")


def refused_leases(kernel: Kernel) -> list[str]:
    """A list that grows by a sentence for each recorded refusal, up to a bound."""
    result: list[str] = []

    def see(_ident: int, at_us: Virtual, _cause: int, values: tuple[Any, ...]) -> None:
        actor, what, target, why = values
        if what == "refused-lease" and len(result) < LEASES_MAX:
            result.append(f"{target} to {actor} at {format_duration(at_us // MS * MS)}: {why['message']}")

    kernel.trace.listen(kernel.kind("decision", "actor", "what", "target", "why"), see)
    return result


def unled_components(plan: Plan) -> Iterator[str]:
    """A note for each component with a lock that its role does not allow, so that it never leads."""
    from sim.scenario.check.endless import manifests_of

    cluster, names = plan.cluster, NAMES[plan.cluster.naming]
    modes = str(raw_option(cluster.api_server.flags, "authorization-mode") or "RBAC")
    if "RBAC" not in modes or "AlwaysAllow" in modes:
        return
    if any(obj["kind"] in _GRANTS for obj in manifests_of(plan)):
        return  # which may allow it
    own = {"controller-manager": cluster.controller_manager, "scheduler": cluster.scheduler}
    for part, component in own.items():
        if str(raw_option(component.flags, "leader-elect")).lower() == "false":
            continue
        default = names.component(part)
        for option, allowed in (("resource-name", (default,)), ("resource-lock", LOCKS)):
            entry = raw_option(component.flags, f"leader-elect-{option}")
            if entry is not None and entry not in allowed:
                place = component.places.get(f"leader-elect-{option}", component.place)
                yield (
                    f"{place}: no {part} will lead: the role of {default} allows no lock with "
                    f"leader-elect-{option} {entry}; bind a role that does, or leave the option out"
                )
