"""Validation of ConfigMaps."""

from __future__ import annotations

from tests.unit.sim.api.kinds.samples import made, updated


def test_update_of_an_immutable_config_map_is_refused():
    old = made("configmaps", immutable=True)
    assert updated("configmaps", {**old, "data": {"k": "w"}, "immutable": False}, old) == [
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set",
    ]
