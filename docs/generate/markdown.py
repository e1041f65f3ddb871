"""Markdown as text: tables, code and headings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GENERATED = "<!-- This page is generated when the site is built. -->"


def page(title: str, *parts: str) -> str:
    """A page of parts that are separated by empty lines."""
    return "\n\n".join([GENERATED, f"# {title}", *(part for part in parts if part)]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def code(text: str) -> str:
    """Text in backticks; nothing for an empty one."""
    return f"`{text}`" if text else ""


def block(language: str, text: str) -> str:
    """A block of code."""
    return f"```{language}\n{text.strip(chr(10))}\n```"
