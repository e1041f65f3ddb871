"""A cluster at one instant as a table, for notebooks: by zone its nodes and pods by their states.

Pure function from stored objects to HTML.
"""

from __future__ import annotations

from collections.abc import Iterable

from sim.api.objects import condition_status
from sim.api.store import Item
from sim.ident import Names
from sim.report import pod_state
from sim.report.page import fragment, table
from sim.units import format_duration

PODS = ("running", "pending", "terminating", "failed", "succeeded")
NO_NODE = "(no node)"


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
