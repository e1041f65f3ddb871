"""Each clause of the guard of node heartbeats: dropped, one of these tests fails (see
`test_guards`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import trio

from sim.api.types import Obj
from sim.kernel.fast import FAST, PLAIN, FastPaths
from tests.actor.apiserver.cluster import ADMIN, plane, request
from tests.actor.apiserver.test_guards import MERGE, NODE, OPTIONS, STRATEGIC, Server


def condition(kind: str, second: int, **more: Any) -> Obj:
    """A condition of a node with a heartbeat at a second; `more` replaces some of its members."""
    time = f"2026-01-01T00:00:{second:02}Z"
    return {"type": kind, "status": "True", "reason": "R", "lastHeartbeatTime": time, **more}


def sent(second: int, **more: Any) -> list[Obj]:
    """The conditions of a report; `more`: what takes the place of members of the first."""
    return [condition("Ready", second, **more), condition("DiskPressure", second)]


class Nodes(Server):
    """A replica with one node."""

    def create(self) -> None:
        """Register the node."""
        status = {"conditions": sent(0), "nodeInfo": {"osImage": "o"}}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
        self.ask(request("create", "nodes", body=body, user=NODE, manager="agent"))
        self.report(sent(1))
        self.report(sent(2))
        self.report(sent(3))

    def report(self, conditions: Any, name: str = "n", kind: str = STRATEGIC, body: Any = None) -> None:
        """Patch the node's status; `body`: the whole patch."""
        body = body or {"status": {"conditions": conditions}}
        self.ask(
            request(
                "patch", "nodes", "", name, subresource="status", body=body, content_type=kind, user=NODE,
                manager="agent",
            )
        )  # fmt: skip

    def patch(self, body: Obj, subresource: str = "") -> None:
        """Let an administrator patch the node."""
        self.ask(
            request(
                "patch", "nodes", "", "n", subresource=subresource, body=body, content_type=MERGE, user=ADMIN
            )
        )


Odd = Callable[[Nodes], object]
ODD: dict[str, Odd] = {
    "even": lambda s: s.report(sent(4)),
    "label_too": lambda s: s.report(
        0, body={"metadata": {"labels": {"a": "b"}}, "status": {"conditions": sent(4)}}
    ),
    "status_text": lambda s: s.report(0, body={"status": "x"}),
    "status_too": lambda s: s.report(
        0, body={"status": {"conditions": sent(4), "nodeInfo": {"osImage": "p"}}}
    ),
    "missing_node": lambda s: s.report(sent(4), name="none"),
    "conditions_text": lambda s: s.report("x"),
    "conditions_number": lambda s: s.report(3),
    "conditions_none": lambda s: s.report([]),
    "merge_patch": lambda s: s.report(sent(4), kind=MERGE),
    "node_without_conditions": lambda s: [
        s.patch({"status": {"conditions": None}}, "status"),
        s.report(sent(4)),
    ],
    "terminating_node": lambda s: [
        s.patch({"metadata": {"finalizers": ["a.b/c"]}}),
        s.ask(request("delete", "nodes", "", "n", user=ADMIN)),
        s.report(sent(4)),
    ],
    "condition_text": lambda s: s.report(["x"]),
    "condition_twice": lambda s: s.report([*sent(4), condition("Ready", 5)]),
    "conditions_twice": lambda s: [
        s.report([condition("Ready", second, **more), condition("Ready", second + 1)])
        for second, more in ((4, {}), (6, {}), (8, {"message": "m"}))
    ],
    "time_text": lambda s: s.report(sent(4, lastHeartbeatTime="soon")),
    "condition_new": lambda s: s.report([*sent(4), condition("PIDPressure", 4)]),
    "time_number": lambda s: s.report(sent(4, lastHeartbeatTime=4)),
    "time_null": lambda s: s.report(sent(4, lastHeartbeatTime=None)),
    "time_with_fraction": lambda s: s.report(sent(4, lastHeartbeatTime="2026-01-01T00:00:04.000001Z")),
    "time_unchanged": lambda s: s.report([condition("Ready", 3), condition("DiskPressure", 3)]),
    "time_without_one_before": lambda s: [
        s.patch({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status"),
        s.report([condition("Ready", 4)]),
        s.report([condition("Ready", 5)]),
    ],
    "status_changed": lambda s: s.report(sent(4, status="False")),
    "owned_by_another": lambda s: [
        s.patch({"status": {"conditions": [condition("Ready", 4, status="False")]}}, "status"),
        s.report([condition("Ready", 5)]),
    ],
}


async def outcome(fast: FastPaths, odd: Odd) -> list[Any]:
    """What can be seen of a run with an odd report."""
    async with plane(options=OPTIONS, fast=fast) as p:
        server = Nodes(p)
        server.create()
        odd(server)
        server.report(sent(9))
        changes = p.storage.store.events(0, "")
        assert isinstance(changes, list)
        for change in changes:
            item = change.item
            server.seen.append((change.rev, item.key, change.deleted, [*item.obj.items()], item.managed))
        return [*server.seen, p.kernel.trace.sha256()]


@cache
def plain_outcome(odd: Odd) -> list[Any]:
    """As `outcome` without fast paths, computed once."""
    return trio.run(outcome, PLAIN, odd)


@pytest.mark.parametrize("name", ODD)
def test_node_report_is_not_served_by_template_when_odd(name: str) -> None:
    assert trio.run(outcome, FAST, ODD[name]) == plain_outcome(ODD[name])


def test_even_node_reports_are_served_by_template() -> None:
    async def main() -> None:
        async with plane(options=OPTIONS) as p:
            server = Nodes(p)
            server.create()
            assert server.followed == 2

    trio.run(main)
