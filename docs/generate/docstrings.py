"""Docstrings as Markdown: lines `name: meaning` of parameters become the items of a list."""

from __future__ import annotations

import re
from typing import Any

from griffe import Docstring, Extension, Object

_PARAMETER = re.compile(r"^(\w+(?:, \w+)*): ")


class ParameterLists(Extension):
    """Writes parameters as lists before mkdocstrings renders a docstring."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of an object."""
        if isinstance(obj.docstring, Docstring):
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(text: str) -> str:
    """The text of a docstring; continued lines of an item stay indented."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if _PARAMETER.match(line):
            if not inside and lines:
                lines.append("")
            lines.append(_PARAMETER.sub(lambda found: f"- `{found[1].replace(', ', '`, `')}`: ", line))
            inside = True
        else:
            if inside and line and not line.startswith(" "):
                lines.append("")
                inside = False
            lines.append(line)
    return "\n".join(lines)
