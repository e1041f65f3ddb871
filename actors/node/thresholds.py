"""Thresholds of evictions, and what a node keeps from its pods, as amounts.  Pure.

Mirrors  pkg/kubelet/eviction/api/types.go: GetThresholdQuantity (v1.25).
"""

from __future__ import annotations

import struct

from sim.options.node.agent import NodeAgentOptions
from sim.units import NANO, quantity_nano


def threshold_value(threshold: str, capacity: str) -> int:
    """A threshold, given as a quantity or as a percentage of the capacity, as an amount.

    Quirk: a percentage is a float32 times the capacity, truncated.
    """
    if not threshold.endswith("%"):
        return quantity_nano(threshold) // 1_000_000_000
    share = struct.unpack("f", struct.pack("f", float(threshold[:-1]) / 100))[0]
    return int(quantity_nano(capacity) // 1_000_000_000 * share)


def reserved_nano(resource: str, capacity: str, options: NodeAgentOptions) -> int:
    """How much of a resource is kept from pods."""
    held = [options.orch_reserved.get(resource, "0"), options.system_reserved.get(resource, "0")]
    if resource == "cpu" and options.reserved_cpus:
        held = [str(len(options.reserved_cpus))]
    nano = sum(map(quantity_nano, held))
    signal = {"memory": "memory.available", "ephemeral-storage": "nodefs.available"}.get(resource)
    if signal and not options.experimental_allocatable_ignore_eviction:
        nano += threshold_value(options.eviction_hard.get(signal, "0"), capacity) * NANO
    return nano
