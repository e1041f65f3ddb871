"""The JSON Schema of scenario files, for editors.

Turns the types that read a scenario (`sim.scenario.schema.sections`) into one JSON Schema with the
descriptions of the types and of the parameters of steps.

Holds: what the schema refuses `orrery validate` refuses too; not the reverse, since most checks
concern more than one value.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from sim.scenario.schema.sections import Scenario

FILE = "scenario.schema.json"


def scenario_schema() -> dict[str, Any]:
    """The schema, with a title and the version of JSON Schema that it uses."""
    made = msgspec.json.schema(Scenario)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Orrery scenario"}
    return {**head, **made}


def schema_text() -> str:
    """The schema as the text of a file."""
    return json.dumps(scenario_schema(), indent=1) + "\n"
