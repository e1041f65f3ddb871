"""The page of the incidents: each with its source, its story, its picture, and what avoids it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from docs.generate.markdown import block, code, page, table

FOLDER = Path(__file__).parents[2] / "scenarios" / "incidents"
PICTURES = Path(__file__).parents[1] / "pictures"
_PARTS = re.compile(r"(?=\b(?:Simulated|Left out|Figures): )")
_LINK = re.compile(r"(https://\S+?)(?=[,:;.)]*(?:\s|$))")


def museum_page() -> str:
    """The page of all incidents."""
    files = sorted(FOLDER.glob("*.yaml"))
    return page(
        "Incidents",
        "Each of these scenarios follows a public report: what happened, by the mechanism that did it, and a variant "
        "with the remedy, in which it does not happen. `orrery run NAME` runs the incident, and `orrery run NAME "
        "--variant VARIANT` the remedy. An expectation that holds shows the failure.",
        *(part for file in files for part in _incident(file)),
    )


def _incident(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8")
    lines = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
    story, *parts = _PARTS.split(" ".join(lines))
    document: dict[str, Any] = yaml.safe_load(text)
    expectations = [(one["name"], code(_wanted(one))) for one in document["spec"]["expect"]]
    variants = [
        (code(name), each.get("description", ""), "; ".join(each["fails"]))
        for name, each in document["spec"]["variants"].items()
    ]
    picture = PICTURES / f"incident-{file.stem}.svg"
    return [
        f"## {file.stem}",
        f"*{document['metadata']['description']}*",
        _LINK.sub(r"<\1>", story.strip()),
        *(f"- **{part.partition(':')[0]}:**{part.partition(':')[2].rstrip()}" for part in parts),
        f"![The run of {file.stem}](../pictures/{picture.name})" if picture.exists() else "",
        table(("what shows it", "expectation"), expectations),
        table(("variant", "what is different", "what does not happen then"), variants),
        block("bash", f"orrery run {file.stem}"),
    ]


def _wanted(expectation: dict[str, Any]) -> str:
    return ", ".join(f"{key}: {_shown(value)}" for key, value in expectation.items() if key != "name")


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
