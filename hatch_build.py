"""The build hook: puts the one schema file that is used of kubernetes-validate into the wheel.

That package holds the schemas of fourteen releases, 108 MB, of which one file of 3 MB is read.  A
wheel carries this file, so that an installation does not need the package; a checkout reads it from
the package, which is among the packages of `requirements.lock`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "kubernetes_validate"
SOURCE = Path("kubernetes-json-schema/v1.25.0-local/_definitions.json")
TARGET = "sim/api/schema/definitions.json"


class Definitions(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Adds the schema file to a wheel that is not editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file; `version` is "editable" for a checkout's own environment."""
        if self.target_name != "wheel" or version == "editable":
            return
        spec = importlib.util.find_spec(PACKAGE)
        assert spec is not None and spec.origin is not None, "it is a build requirement"
        build_data["force_include"][str(Path(spec.origin).parent / SOURCE)] = TARGET
