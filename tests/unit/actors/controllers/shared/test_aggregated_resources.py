"""Discovery of aggregated APIs, as controllers ask for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors.controllers.shared.aggregated_resources import discover
from sim.api.aggregation.delegation import Delegated
from sim.api.types import Reply

SERVICE = {"status": {"conditions": [{"type": "Available", "status": "True"}]}}
ROW = {"name": "flunders", "kind": "Flunder", "namespaced": True, "verbs": ["list"]}


@pytest.mark.parametrize(
    ("body", "names", "failing"),
    [
        ({"resources": [ROW]}, ["flunders"], []),
        ({"resources": [5, {"name": 5}]}, [], []),
        ([], [], ["w.io/v1"]),
        (None, [], ["w.io/v1"]),
        ("text", [], ["w.io/v1"]),
    ],
)
async def test_discovery_that_is_no_object_fails_its_group(
    body: Any, names: list[str], failing: list[str]
) -> None:
    async def ask(_: Any) -> Reply:
        return Reply(200, body=body)

    client: Any = SimpleNamespace(ask=ask, user=None, manager="m")
    found, failed = await discover(client, [Delegated("w.io", "v1", SERVICE)], ())
    assert [each.plural for each in found] == names
    assert failed == failing
