"""Thresholds of evictions as amounts.  Pure.

Mirrors  pkg/kubelet/eviction/api/types.go: GetThresholdQuantity (v1.25).
"""

from __future__ import annotations

import struct

from sim.units import quantity_nano


def threshold_value(threshold: str, capacity: str) -> int:
    """A threshold, given as a quantity or as a percentage of the capacity, as an amount.

    Quirk: a percentage is a float32 times the capacity, truncated.
    """
    if not threshold.endswith("%"):
        return quantity_nano(threshold) // 1_000_000_000
    share = struct.unpack("f", struct.pack("f", float(threshold[:-1]) / 100))[0]
    return int(quantity_nano(capacity) // 1_000_000_000 * share)
