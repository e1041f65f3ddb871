"""The present configuration of a node agent, as its page /configz shows it.

Turns options into the fields of the agent's configuration file.

Mirrors  kubernetes v1.25 component-base configz; kubelet config/v1beta1/types.go.
Differs  fields of options that this program refuses are absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.ident import Names
from sim.options.base import options_of
from sim.options.node.agent import NodeAgentOptions
from sim.options.node.configuration import Field, api_version, fields_of, kind_of
from sim.units import BINARY_SI, format_duration, format_quantity


def configuration_of(options: NodeAgentOptions, names: Names) -> Mapping[str, Any]:
    """The fields by their names, with nested ones as mappings; empty ones are left out."""
    values = {
        spec.spelled(names): getattr(options, name) for name, spec in options_of(NodeAgentOptions).items()
    }
    made: dict[str, Any] = {}
    fields = fields_of({"apiVersion": api_version(names), "kind": kind_of(names)}, names)
    for path, field in fields.items():
        if field.option not in values:
            continue
        value = _shown(field, values[field.option])
        if value in ("", (), [], {}) or value is None:
            continue
        *parents, last = path.split(".")
        at = made
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = value
    return made


def _shown(field: Field, value: Any) -> Any:
    """A value of an option in the form of its field."""
    match field.type:
        case "duration" | "nanoseconds":
            return format_duration(value) if value else "0s"
        case "taints":
            return [dict(each) for each in value]
        case "priorities":
            return [
                {"priority": priority, "shutdownGracePeriodSeconds": grace_us // 1_000_000}
                for priority, grace_us in value
            ]
        case "gates":
            return {name: text == "true" for name, text in value.items()}
        case "map":
            durations = field.option == "eviction-soft-grace-period"
            return {name: format_duration(each) if durations else each for name, each in value.items()}
        case "strings":
            return list(value)
        case "quantity":
            return str(value)
        case "string" if isinstance(value, int):
            return format_quantity(value, BINARY_SI)
        case "string" if isinstance(value, tuple):
            return ",".join(map(str, value))
        case _:
            return value
