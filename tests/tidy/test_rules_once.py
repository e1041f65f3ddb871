"""Tolerations, node affinity and classes of service are decided in one module each."""

from __future__ import annotations

import pytest

from tests.tidy.house import FIGURES


@pytest.mark.parametrize(
    "figure",
    ["modules that match tolerations", "modules that match affinity terms", "modules that classify QoS"],
)
def test_rule_shared_by_processes_is_in_one_module(figure: str) -> None:
    assert len(list(FIGURES[figure]())) == 1
