"""The page of scenario files, from the types that read them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from docs.generate.markdown import code, page, table
from sim.app.reference.schema import scenario_schema
from sim.scenario.actions import KINDS
from sim.scenario.schema import sections

_TITLES = {
    "Scenario": "Scenario", "Metadata": "metadata", "Spec": "spec", "Cluster": "spec.cluster",
    "NodeGroup": "spec.cluster.nodes[]", "Runtime": "spec.cluster.nodes[].runtime",
    "StorageEntry": "spec.cluster.storage[]",
    "Component": "spec.cluster.apiServer, controllerManager, scheduler", "Step": "spec.timeline[]",
    "Drawn": "spec.timeline[].random[]", "Expectation": "spec.expect[]",
    "Unavailability": "spec.expect[].unavailability", "Invariant": "spec.expect[].invariant", "Matter": "an event",
}  # fmt: skip


def schema_page() -> str:
    """Every section of a scenario file with its fields."""
    definitions = scenario_schema()["$defs"]
    return page(
        "Scenario files",
        "A scenario is one YAML file. `orrery schema > scenario.schema.json` writes its JSON Schema, and an editor "
        "checks a file that begins with `# yaml-language-server: $schema=scenario.schema.json`. Durations are texts "
        "such as `90s`, `5m` or `1h30m`; times of steps may be ranges, `10s..60s`, of which one value is drawn.",
        *(part for name in _TITLES if name in definitions for part in _section(name, definitions[name])),
    )


def _section(name: str, definition: dict[str, Any]) -> Iterator[str]:
    yield f"## {_TITLES[name]}"
    found: Any = getattr(sections, name, None)
    if found is not None and found.__doc__:
        yield " ".join(inspect.cleandoc(found.__doc__).split())
    required = definition.get("required", ())
    rows = [
        (code(field), _type(value), "required" if field in required else _default(value), _words(value))
        for field, value in definition["properties"].items()
        if field not in KINDS
    ]
    if any(field in KINDS for field in definition["properties"]):
        rows.append(("*an action*", "", "one of them", "One of the [faults and actions](steps.md)."))
    yield table(("field", "type", "default", "meaning"), rows)


def _type(value: dict[str, Any]) -> str:
    """The type of a field in words."""
    if "$ref" in value:
        return value["$ref"].rpartition("/")[2]
    if "enum" in value:
        return ", ".join(code(str(each)) for each in value["enum"])
    if "anyOf" in value:
        return " or ".join(
            dict.fromkeys(_type(each) for each in value["anyOf"] if each.get("type") != "null")
        )
    if value.get("type") == "array":
        return f"list of {_type(value.get('items', {}))}"
    if value.get("type") == "object":
        return "mapping"
    return str(value.get("type", "any"))


def _default(value: dict[str, Any]) -> str:
    if "default" not in value or value["default"] in (None, "", [], {}):
        return ""
    return code(
        str(value["default"]).lower() if isinstance(value["default"], bool) else str(value["default"])
    )


def _words(value: dict[str, Any]) -> str:
    return str(value.get("description", ""))
