"""The page /configz: the configuration of a component as its internal type has it.

Turns options into nested fields, by a table of fields and options.

Mirrors  kubernetes v1.25 component-base configz; pkg/controller/apis/config/types.go,
         staging controller-manager config/types.go; pkg/scheduler/apis/config/types.go.
Differs  fields of options that have no effect here are absent, and so are the profiles of a
         scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sim.ident import Names
from sim.options.base import duration, options_of
from sim.texts import rows
from sim.units import format_duration

_FIELDS = Path(__file__).with_name("configz.txt")
GROUPS = {"controller-manager": "{short}controllermanager.config.{domain}", "scheduler": "componentconfig"}


def configz_of(names: Names, process: str, *classes: Any) -> Mapping[str, Any]:
    """The page of a process.  classes: the values of its options classes"""
    values: dict[str, Any] = {}
    for entry in classes:
        for field, option in options_of(type(entry)).items():
            values[option.name] = _shown(option.read, getattr(entry, field))
    new: dict[str, Any] = {}
    for path, name in rows(_FIELDS)[process].items():
        *parents, last = path.split(".")
        at = new
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = values[name]
    group = GROUPS[process].format(short=names.short, domain=names.group_domain)
    return {group: new}


def _shown(read: Any, value: Any) -> Any:
    if read is duration:
        return format_duration(value) if value else "0s"
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
