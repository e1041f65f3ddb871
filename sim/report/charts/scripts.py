"""The scripts that a page carries to draw its charts: Vega, Vega-Lite and Vega-Embed in one text.

A wheel holds the text (`hatch_build.py`), so that an installation does not need the 84 MB of
`vl-convert-python`.  A checkout makes it with that package, which takes two seconds, and keeps it
in the user's folder `.cache`.

Holds: the text is compressed and contains no character that ends a script element.
"""

from __future__ import annotations

import base64
import gzip
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from sim.errors import InputError
from sim.files import write_text

OWN = Path(__file__).with_name("scripts.b64")
MISSING = InputError(
    "pictures need the package vl-convert-python in a checkout", "", "pip install vl-convert-python"
)


@lru_cache(maxsize=1)
def packed_scripts() -> str:
    """The scripts: JavaScript, by gzip, in base64.  Raises InputError if a checkout cannot make
    them.
    """
    if OWN.exists():
        return OWN.read_text(encoding="ascii")
    import importlib.metadata  # only a checkout needs it

    try:
        version = importlib.metadata.version("vl-convert-python")
    except importlib.metadata.PackageNotFoundError:
        raise MISSING from None
    kept = Path.home() / ".cache" / "orrery" / f"vega-{version}.b64"
    with suppress(OSError):
        return kept.read_text(encoding="ascii")
    made = pack_scripts()
    with suppress(OSError, InputError):  # a cache that cannot be written costs time, not the report
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_text(kept, made)
    return made


def pack_scripts() -> str:
    """Make the text from `vl-convert-python`."""
    import vl_convert

    text = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its type omits the default
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
