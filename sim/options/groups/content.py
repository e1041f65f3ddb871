"""The option of the form of bodies between a process that runs alone and its API server.

Mirrors  component-base v1.25 config/types.go (ClientConnectionConfiguration).
Differs  the default is JSON (upstream: protobuf), which this process reads and writes faster.
"""

from __future__ import annotations

from sim.dataclass import dataclass
from sim.options.base import option, string


@dataclass(frozen=True, slots=True)
class ContentFlags:
    """The form of bodies."""

    api_content_type: str = option("{short}-api-content-type", string, "application/json")
