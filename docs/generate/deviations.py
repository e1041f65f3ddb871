"""The page of deviations: the section `Differs` of each module's docstring."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from docs.generate.markdown import code, page, table

ROOT = Path(__file__).parents[2]
_SECTION = re.compile(r"^(Differs|Mirrors)\b(.*?)(?=^\w+  |^\w+:|^$|\Z)", re.MULTILINE | re.DOTALL)


def deviations_page() -> str:
    """Each module that deviates, with the upstream files that it mirrors."""
    rows = []
    for part in ("actors", "sim"):
        for file in sorted((ROOT / part).rglob("*.py")):
            text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            found = {name: " ".join(words.split()) for name, words in _SECTION.findall(text)}
            if "Differs" in found:
                module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
                rows.append((code(module), _plain(found["Differs"]), _plain(found.get("Mirrors", ""))))
    return page(
        "Deviations by module",
        "Every deviation from upstream is written in the docstring of the module that makes it. This table is collected "
        f"from {len(rows)} modules.",
        table(("module", "differs", "mirrors"), rows),
    )


def _plain(text: str) -> str:
    """Text of a docstring in a cell of a table."""
    return text.removeprefix(":").replace("<", "&lt;").replace("*", "\\*").strip()
