"""The merge of hints by each policy.  Sets of NUMA nodes are written as bits."""

from __future__ import annotations

import pytest

from actors.node.resources.hints import Hint, is_narrower, masks_of, merged

BOTH = 0b11
CPU = [Hint(0b01, True), Hint(0b10, True), Hint(BOTH, False)]


def test_sets_come_by_size() -> None:
    assert list(masks_of(range(3))) == [0b001, 0b010, 0b100, 0b011, 0b101, 0b110, 0b111]


def test_smaller_and_lower_set_is_narrower() -> None:
    assert is_narrower(0b100, 0b011)
    assert is_narrower(0b01, 0b10)
    assert not is_narrower(0b10, 0b01)


@pytest.mark.parametrize(
    ("policy", "providers", "best", "admits"),
    [
        ("best-effort", [{}, {"cpu": CPU}], Hint(0b01, True), True),
        ("best-effort", [{"gpu": [Hint(0b10, True), Hint(BOTH, False)]}, {"cpu": CPU}], Hint(0b10, True), True),
        # No common set of one node: the policies differ.
        ("best-effort", [{"gpu": [Hint(0b01, True)]}, {"cpu": [Hint(0b10, True)]}], Hint(BOTH, False), True),
        ("restricted", [{"gpu": [Hint(0b01, True)]}, {"cpu": [Hint(0b10, True)]}], Hint(BOTH, False), False),
        # Both resources need both nodes: a set of two is preferred.
        ("restricted", [{"gpu": [Hint(BOTH, True)]}, {"cpu": [Hint(BOTH, True)]}], Hint(BOTH, True), True),
        ("single-numa-node", [{"gpu": [Hint(BOTH, True)]}, {"cpu": [Hint(BOTH, True)]}], Hint(None, False), False),
        ("single-numa-node", [{}, {"cpu": CPU}], Hint(0b01, True), True),
        ("single-numa-node", [{}, {}], Hint(None, True), True),
        ("best-effort", [{}, {}], Hint(BOTH, True), True),
        # A resource without any possible set, and one without a preference.
        ("restricted", [{"gpu": []}, {"cpu": CPU}], Hint(0b01, False), False),
        ("restricted", [{"gpu": None}, {"cpu": CPU}], Hint(0b01, True), True),
    ],
)  # fmt: skip
def test_policy_merges_and_admits(policy, providers, best, admits) -> None:
    assert merged(policy, 2, providers) == (best, admits)


def test_sets_that_are_not_preferred_are_as_large_as_the_neediest_provider() -> None:
    gpu = [Hint(0b0011, False), Hint(0b1111, False)]
    cpu = [Hint(0b0001, False), Hint(0b0011, False), Hint(0b1111, False)]
    # One node would be narrower, but the devices need two.
    assert merged("best-effort", 4, [{"gpu": gpu}, {"cpu": cpu}])[0] == Hint(0b0011, False)
