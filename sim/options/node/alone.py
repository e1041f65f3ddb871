"""Options of a node agent that runs alone: the machine that is simulated under it.

Differs  upstream's agent finds the machine on which it runs, and its zone through a cloud.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.dataclass import dataclass
from sim.options.base import file_name, mapping, option, string
from sim.units import quantity_nano


def _amounts(value: Mapping[str, str]) -> str | None:
    for resource, text in value.items():
        try:
            amount = quantity_nano(text)
        except ValueError:
            amount = -1
        if amount < 0:
            return f"{text} of {resource} is no quantity"
    return None if {"cpu", "memory"} <= {*value} else "a machine has cpu and memory"


@dataclass(frozen=True)
class MachineSettings:
    """The machine of an agent that runs alone."""

    machine: Mapping[str, str] = option("machine", mapping, "cpu=8,memory=32Gi", check=_amounts)
    machine_zone: str = option("machine-zone", string, "")
    machine_region: str = option("machine-region", string, "")
    machine_proxy_config: str = option("machine-proxy-config", file_name, "")
