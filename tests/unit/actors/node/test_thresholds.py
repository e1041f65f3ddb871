"""Thresholds of evictions as amounts."""

from actors.node.thresholds import threshold_value


def test_percentage_threshold_is_computed_as_32_bit_float() -> None:
    assert threshold_value("10%", "100Gi") == int(107374182400 * 0.10000000149011612)
    assert threshold_value("100Mi", "8Gi") == 104857600
