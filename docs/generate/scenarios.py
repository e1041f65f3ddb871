"""A page for each scenario that comes along, from the comment at its beginning."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from docs.generate.markdown import block, code, page, table

FOLDER = Path(__file__).parents[2] / "scenarios"
_BROKEN = re.compile(r"--set (?P<setting>.+?) -> (?P<expectation>.+)")


def scenario_pages() -> dict[str, str]:
    """The page of each scenario, and their list, by path below `docs`."""
    files = sorted(FOLDER.glob("*.yaml"))
    pages = {f"scenarios/{file.stem}.md": _page(file) for file in files}
    rows = [(f"[{file.stem}]({file.stem}.md)", _description(file)) for file in files]
    index = page(
        "Scenarios",
        "These scenarios come with Orrery. `orrery list` shows them anywhere, and `orrery run NAME` runs one.",
        table(("scenario", "what it shows"), rows),
    )
    return {"scenarios/index.md": index, **pages}


def _description(file: Path) -> str:
    return str(yaml.safe_load(file.read_text(encoding="utf-8"))["metadata"].get("description", ""))


def _page(file: Path) -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    length = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    prose, numbers, broken = [], "", []
    for line in lines[:length]:
        text = line.removeprefix("#").strip()
        if text.startswith("Broken by:"):
            broken.append(text.removeprefix("Broken by:").strip())
        elif text.startswith("Numbers:") or numbers:
            numbers = f"{numbers} {text}".strip()
        else:
            prose.append(text)
    found = [match for each in broken if (match := _BROKEN.fullmatch(each))]
    rows = [(code(f"--set {each['setting']}"), each["expectation"]) for each in found]
    return page(
        file.stem,
        f"*{_description(file)}*",
        _escaped(" ".join(prose)),
        _escaped(numbers),
        block("text", f"orrery run {file.stem}"),
        "## Settings that break it" if rows else "",
        table(("setting", "the expectation that fails"), rows) if rows else "",
        "## The file",
        block("yaml", "\n".join(lines[length:])),
    )


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")
