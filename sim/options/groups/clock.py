"""The option of a process that runs alone about the clock that it follows.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from sim.dataclass import dataclass
from sim.options.base import file_name, option, string


@dataclass(frozen=True, slots=True)
class ClockFlags:
    """The clock of a process."""

    clock: str = option("clock", string, "")
    clock_config: str = option("clock-config", file_name, "")

    def __post_init__(self) -> None:
        """Raises ValueError for credentials of no clock."""
        if self.clock_config and not self.clock:
            raise ValueError("option clock-config has no effect without clock")
