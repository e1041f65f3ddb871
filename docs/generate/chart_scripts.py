"""`python -m docs.generate.chart_scripts`: write the scripts of charts from `vl-convert-python`."""

from __future__ import annotations

import base64
import gzip

import vl_convert

from sim.report.charts.scripts import PACKED


def pack_scripts() -> str:
    """The programs that draw charts, as `sim.report.charts.scripts` describes."""
    text = vl_convert.javascript_bundle()
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


if __name__ == "__main__":
    PACKED.write_text(pack_scripts(), encoding="ascii")
