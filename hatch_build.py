"""The build hook: puts what is used of two large packages into the wheel.

kubernetes-validate holds the schemas of fourteen releases, 108 MB, of which one file of 3 MB is
read.  A wheel carries this file, so that an installation does not need the package; a checkout
reads it from the package, which is among the packages of `requirements.lock`.  In the same way the
wheel carries the scripts that draw the charts of a report, 0.4 MB of the 84 MB of
vl-convert-python.
"""

from __future__ import annotations

import base64
import gzip
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "kubernetes_validate"
SOURCE = Path("kubernetes-json-schema/v1.25.0-local/_definitions.json")
TARGET = "sim/api/schema/definitions.json"
SCRIPTS = "sim/report/charts/scripts.b64"


class Resources(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Adds the schema file and the scripts to a wheel that is not editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files; `version` is "editable" for a checkout's own environment."""
        if self.target_name != "wheel" or version == "editable":
            return
        spec = importlib.util.find_spec(PACKAGE)
        assert spec is not None and spec.origin is not None, "it is a build requirement"
        build_data["force_include"][str(Path(spec.origin).parent / SOURCE)] = TARGET
        scripts = Path(tempfile.mkdtemp(prefix="orrery-build-")) / "scripts.b64"
        scripts.write_text(pack_scripts(), encoding="ascii")
        build_data["force_include"][str(scripts)] = SCRIPTS


def pack_scripts() -> str:
    """As `sim.report.charts.scripts` makes them in a checkout; `sim` cannot be imported here."""
    import vl_convert

    return base64.b64encode(gzip.compress(vl_convert.javascript_bundle().encode(), 9, mtime=0)).decode()
