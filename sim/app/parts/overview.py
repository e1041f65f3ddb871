"""A cluster at one instant: in numbers, by the names of its objects, by what its components answer,
and as a table for notebooks.

Functions from the state of a cluster to values and HTML; they change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from sim.api.kinds.core.component_status import Answer, components
from sim.api.objects import condition_status, is_ready
from sim.check import split_key
from sim.options.groups.serving import Access, ServerFlags
from sim.report import pod_state
from sim.report.page import fragment, table
from sim.units import format_duration

if TYPE_CHECKING:
    from sim.api.store import Item
    from sim.app.options import ClusterOptions
    from sim.ident import Names
    from sim.kernel import Supervisor
    from sim.scenario.plan.plan import ClusterPlan, ComponentPlan

PODS = ("running", "pending", "terminating", "failed", "succeeded")
_ANSWERS = {
    Access.ALLOWED: Answer.HEALTHY,
    Access.FORBIDDEN: Answer.FORBIDDEN,
    Access.REFUSED: Answer.REFUSED,
    Access.REVIEWED: Answer.REVIEWED,
}
NO_NODE = "(no node)"


def counted(nodes: Collection[Item], pods: Collection[Item]) -> dict[str, int]:
    """The numbers of nodes, ready nodes, pods and running pods."""
    ready = sum(is_ready(item.obj) for item in nodes)
    running = sum(pod_state(item) == "running" for item in pods)
    return {"nodes": len(nodes), "ready": ready, "pods": len(pods), "running": running}


def named(names: Names, keys: Iterable[str]) -> list[tuple[str, str]]:
    """Namespace and name of the objects of these keys."""
    parts = (split_key(key) for key in keys)
    return [(namespace or names.default_namespace, name) for _, namespace, name in parts]


def probed(
    names: Names, plan: ClusterPlan, options: ClusterOptions, supervisor: Supervisor, storage_answers: bool
) -> dict[str, Answer]:
    """What the components of the control plane do with the probes of their health, by name."""
    result = {
        component.name: Answer.HEALTHY if storage_answers else Answer.REFUSED
        for component in components(names)
    }
    daemons: dict[str, tuple[ComponentPlan, ServerFlags]] = {
        "controller-manager": (plan.controller_manager, options.controller_manager),
        "scheduler": (plan.scheduler, options.scheduler),
    }
    for component in components(names):
        if component.name in daemons:
            part, flags = daemons[component.name]
            runs = any(supervisor[f"{component.name}-{index}"].running for index in range(part.replicas))
            access = flags.access(component.port, component.path)
            result[component.name] = _ANSWERS[access] if runs else Answer.REFUSED
    return result


def overview(names: Names, now_us: int, nodes: Iterable[Item], pods: Iterable[Item]) -> str:
    """The table, with a row for each zone and one for pods without a node."""
    zones: dict[str, str] = {}
    counts: dict[str, dict[str, int]] = {}

    def add(zone: str, column: str) -> None:
        of_zone = counts.setdefault(zone, {})
        of_zone[column] = of_zone.get(column, 0) + 1

    for item in nodes:
        metadata = item.obj["metadata"]
        zone = zones[metadata["name"]] = (metadata.get("labels") or {}).get(names.label_zone, "")
        add(zone, "nodes")
        if condition_status(item.obj, "Ready") == "True":
            add(zone, "ready")
    for item in pods:
        add(zones.get(str(item.peek("spec", "nodeName") or ""), NO_NODE), pod_state(item))
    shown = [state for state in PODS if any(state in of_zone for of_zone in counts.values())]
    columns = ("nodes", "ready", *shown)
    rows = [
        [zone or "(none)", *(str(counts[zone].get(column, 0)) for column in columns)]
        for zone in sorted(counts)
    ]
    heads = ("zone", "nodes", "ready", *(f"pods {state}" for state in shown))
    body = table(heads, rows, numbers=len(columns)) or "<p>no nodes and no pods</p>"
    return fragment(f"<p>cluster at {format_duration(now_us)}</p>{body}")
