"""Distributions as blocks in a line."""

from sim.report.blocks import blocks


def test_blocks_show_even_a_single_value() -> None:
    values = [1.0] * 100 + [2.0] + [9.0]
    shown = blocks(values, 10)
    assert shown[0] == "█" and shown.count("▁") == 2 and len(shown) <= 11
