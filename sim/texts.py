"""Files of texts beside the code: sections of rows `NAME: TEXT`, with an empty line between them.

Turns such a file into its rows by section.  The lines before the first empty one are a comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path


@cache
def rows(file: Path) -> Mapping[str, Mapping[str, str]]:
    """The texts of a file by name, for each of the words in the first line of their section."""
    found: dict[str, dict[str, str]] = {}
    for section in file.read_text(encoding="utf-8").split("\n\n")[1:]:
        head, *lines = section.strip().splitlines()
        for owner in head.split():
            found.setdefault(owner, {}).update(
                (name, text) for name, _, text in (line.partition(": ") for line in lines)
            )
    return found
