"""A scenario document as YAML that people like to read: what fits on a line is on one line.

Holds: the text reads back as the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

WIDTH = 118
_NEVER = 1 << 30  # no line is broken by the writer of YAML
# Parts that have a line for each entry, even if all of them fit on one.
_LONG = ((), ("spec",), ("spec", "cluster"), ("spec", "objects"), ("spec", "timeline"), ("spec", "expect"))


class _Dumper(yaml.SafeDumper):
    """Writes equal values out where they occur, instead of aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def scenario_text(document: Mapping[str, Any], comments: Sequence[str] = ()) -> str:
    """The text of a file.  comments: lines at its beginning"""
    head = [f"# {each}".rstrip() for each in comments]
    return "\n".join([*head, *_block(document, "", ())]) + "\n"


def _flow(value: Any) -> str:
    """A value in one line."""
    text = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_NEVER, default_flow_style=True
    )
    return text.removesuffix("\n...\n").rstrip("\n")


def _block(value: Any, indent: str, path: tuple[str, ...]) -> Iterator[str]:
    """The lines of a mapping or a list, an entry after the other."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _entry(f"{indent}{_flow(key)}:", inner, f"{indent}  ", (*path, str(key)))
        return
    for inner in value:
        if _fits(f"{indent}- ", inner):
            yield f"{indent}- {_flow(inner)}"
        else:
            lines = [*_block(inner, f"{indent}  ", (*path, ""))]
            yield f"{indent}- {lines[0].lstrip()}"
            yield from lines[1:]


def _entry(head: str, value: Any, indent: str, path: tuple[str, ...]) -> Iterator[str]:
    if _fits(f"{head} ", value) and (path not in _LONG or not value):
        yield f"{head} {_flow(value)}"
    else:
        yield head
        yield from _block(value, indent, path)


def _fits(head: str, value: Any) -> bool:
    """True if a value is in one line: it fits, or has no parts."""
    return not value or not isinstance(value, Mapping | list) or len(head) + len(_flow(value)) <= WIDTH
