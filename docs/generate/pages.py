"""All generated pages, and their places in the navigation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from docs.generate.commands import commands_page
from docs.generate.deviations import deviations_page
from docs.generate.museum import museum_page
from docs.generate.programs import program_pages
from docs.generate.records import records_page
from docs.generate.scenarios import scenario_pages
from docs.generate.schema import schema_page
from docs.generate.shapes import shapes_page
from docs.generate.steps import conditions_page, options_page, steps_page
from sim.app.reference.options import DAEMONS

HERE = Path(__file__).parents[1]
Page = Mapping[str, str]


def generated_pages() -> dict[str, str]:
    """The text of each generated page, by its path below `docs`."""
    return {
        "reference/commands.md": commands_page(),
        "reference/steps.md": steps_page(),
        "reference/conditions.md": conditions_page(),
        **{f"reference/options/{daemon}.md": options_page(daemon) for daemon in DAEMONS},
        **program_pages(),
        "reference/scenario.md": schema_page(),
        "reference/trace.md": records_page(),
        "reference/json.md": shapes_page(),
        "reference/deviations.md": deviations_page(),
        "scenarios/incidents.md": museum_page(),
        **scenario_pages(),
    }


def navigation() -> list[dict[str, Any]]:
    """The sections of the navigation after the tutorial."""
    scenarios = [path for path in scenario_pages() if not path.endswith("index.md")]
    return [
        {"How to": ["how-to/index.md", *_written("how-to")]},
        {"Explanation": _written("explanation")},
        {
            "Reference": [
                {"Commands": "reference/commands.md"},
                {"Faults and actions": "reference/steps.md"},
                {"Conditions and events": "reference/conditions.md"},
                {"Options": [{daemon: f"reference/options/{daemon}.md"} for daemon in DAEMONS]},
                {"Programs": list(program_pages())},
                {"Scenario files": "reference/scenario.md"},
                {"Trace records": "reference/trace.md"},
                {"JSON output": "reference/json.md"},
                {"Python": "reference/python.md"},
                {"Deviations": "reference/deviations.md"},
            ]
        },
        {"Scenarios": ["scenarios/index.md", {"Incidents": "scenarios/incidents.md"}, *scenarios]},
        {"Contributing": _written("contributing")},
    ]


def _written(folder: str) -> list[str]:
    """The pages of a folder, without its index."""
    return [
        str(path.relative_to(HERE))
        for path in sorted((HERE / folder).glob("*.md"))
        if path.name != "index.md"
    ]
