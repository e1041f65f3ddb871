"""Names of images: whether a name is valid, and the digest that an image is listed under.  Pure.

Mirrors  docker distribution reference/{normalize,regexp}.go, by which pkg/util/parsers reads names
         (v1.25).
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from sim.patterns import pattern

_DOMAIN = (
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*(?::[0-9]+)?"
)
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = pattern(
    rf"{_DOMAIN}/{_PART}(?:/{_PART})*(?::[\w][\w.-]{{0,127}})?(?:@[A-Za-z][\w+.-]*:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)


@lru_cache(maxsize=1024)
def fault_of(image: str) -> str:
    """Why the name is invalid; "" if it is valid."""
    head, slash, rest = image.partition("/")
    if not slash or not ("." in head or ":" in head or head == "localhost" or head.lower() != head):
        head, rest = "docker.io", image
    path = rest.partition("@")[0].partition(":")[0]
    if path.lower() != path:
        return "invalid reference format: repository name must be lowercase"
    return "" if _REFERENCE.fullmatch(f"{head}/{rest}") else "invalid reference format"


@lru_cache(maxsize=1024)
def image_id(image: str) -> str:
    """The image by its digest.

    Differs  the digest is computed from the name: stable, in the right form, and the same on every
             node.
    """
    name, _, digest = image.partition("@")
    head, slash, last = name.rpartition("/")
    digest = digest or f"sha256:{hashlib.sha256(image.encode()).hexdigest()}"
    return f"{head}{slash}{last.partition(':')[0]}@{digest}"
