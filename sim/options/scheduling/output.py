"""The option by which a scheduler writes its configuration and ends."""

from __future__ import annotations

from sim.dataclass import dataclass
from sim.options.base import file_name, option


@dataclass(frozen=True)
class OutputFlags:
    """What a scheduler writes before it ends at once."""

    write_config_to: str = option("write-config-to", file_name, "")
