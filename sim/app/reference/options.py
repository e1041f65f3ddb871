"""The options of every daemon, from the declarations that their parsers read.

Turns the options classes of `sim.options` into rows: an option with its default and its effect, or
with the reason why it has none and is refused; and the feature gates, each with its stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sim.ident import Names
from sim.options.apiserver.server import ApiServerFlags
from sim.options.base import Option, duration, effects_of, idle_reason, options_of, refusals_of
from sim.options.controllers.manager import ControllerManagerOptions
from sim.options.features.gates import SPECIAL, gates_of
from sim.options.features.table import GATES
from sim.options.node.agent import NodeAgentOptions
from sim.options.scheduler import SchedulerOptions
from sim.units import format_duration


class OptionRow(NamedTuple):
    """One option.

    effect: "" for an option that is refused because it would have no effect, or is taken without
    reason: why it would have none
    taken: why an option that is taken has none
    """

    name: str
    default: str
    effect: str
    reason: str = ""
    taken: str = ""


class GateRow(NamedTuple):
    """One feature gate.  effect: True if a daemon acts on it"""

    name: str
    stage: str
    default: bool
    locked: bool
    effect: bool


_DAEMONS: Mapping[str, type[Any]] = {
    "apiserver": ApiServerFlags,
    "controller-manager": ControllerManagerOptions,
    "scheduler": SchedulerOptions,
    "node-agent": NodeAgentOptions,
}
DAEMONS = tuple(_DAEMONS)


def option_rows(daemon: str, names: Names) -> list[OptionRow]:
    """The options of a daemon by name, those with an effect first."""
    options = _DAEMONS[daemon]
    effects = effects_of(options)
    declared = options_of(options).values()
    rows = []
    for each in declared:
        effect = effects[each.name]
        taken = idle_reason(effect)
        shown = (each.spelled(names), _default(each, names))
        rows.append(OptionRow(*shown, "", "", taken) if taken else OptionRow(*shown, effect))
    reasons = refusals_of(options.__name__)
    refused = [OptionRow(_spelled(name, names), "", "", why) for name, why in reasons.items()]
    return [*sorted(rows), *sorted(refused)]


def gate_rows(daemon: str) -> list[GateRow]:
    """All feature gates by name, which each daemon takes; effect: in this one."""
    acted_on = {*gates_of(_DAEMONS[daemon].__name__), *SPECIAL}
    return [GateRow(name, *gate, name in acted_on) for name, gate in GATES.items()]


def _default(declared: Option, names: Names) -> str:
    default = declared.default
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, str):
        return default.replace("{short}", names.short)
    if isinstance(default, int) and declared.read is duration:
        return format_duration(default)
    return str(default) if default not in ({}, ()) else ""


def _spelled(name: str, names: Names) -> str:
    return name.replace("{agent}", names.node_agent).format(short=names.short)
