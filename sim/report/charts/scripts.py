"""The scripts that a page carries to draw its charts: Vega, Vega-Lite and Vega-Embed in one text.

`scripts.b64` holds them, 0.4 MB of the 84 MB of `vl-convert-python`, which an installation does
without.  `python -m docs.generate.chart_scripts` makes the file from that package.

Holds: the text is compressed and contains no character that ends a script element.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

PACKED = Path(__file__).with_name("scripts.b64")


@lru_cache(maxsize=1)
def packed_scripts() -> str:
    """The scripts: JavaScript, by gzip, in base64."""
    return PACKED.read_text(encoding="ascii")
