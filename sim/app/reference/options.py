"""The options of every daemon, from the declarations that their parsers read.

Turns the options classes of `sim.options` into rows: an option with its default and its effect, or
with the reason why it has none and is refused; and the feature gates, each with its stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sim.ident import Names
from sim.options import scheduler
from sim.options.apiserver import server as api_server
from sim.options.base import Option, duration, effects_of, options_of
from sim.options.controllers import manager as controller_manager
from sim.options.features.gates import FEATURE_GATES, SPECIAL, built_gates
from sim.options.features.table import GATES
from sim.options.node import refusals as node_agent_refusals
from sim.options.node.agent import NodeAgentOptions
from sim.units import format_duration


class OptionRow(NamedTuple):
    """One option.

    effect: "" for an option that is refused because it would have no effect
    reason: why it would have none
    """

    name: str
    default: str
    effect: str
    reason: str = ""


class GateRow(NamedTuple):
    """One feature gate.  effect: True if a daemon acts on it"""

    name: str
    stage: str
    default: bool
    locked: bool
    effect: bool


class _Daemon(NamedTuple):
    options: type[Any]
    refused: Mapping[str, str]


_DAEMONS: Mapping[str, _Daemon] = {
    "apiserver": _Daemon(api_server.ApiServerFlags, api_server.WITHOUT_EFFECT),
    "controller-manager": _Daemon(
        controller_manager.ControllerManagerOptions, controller_manager.WITHOUT_EFFECT
    ),
    "scheduler": _Daemon(scheduler.SchedulerOptions, scheduler.WITHOUT_EFFECT),
    "node-agent": _Daemon(NodeAgentOptions, node_agent_refusals.WITHOUT_EFFECT),
}
DAEMONS = tuple(_DAEMONS)


def option_rows(daemon: str, names: Names) -> list[OptionRow]:
    """The options of a daemon by name, those with an effect first."""
    found = _DAEMONS[daemon]
    effects = effects_of(found.options)
    declared = options_of(found.options).values()
    rows = [OptionRow(each.spelled(names), _default(each, names), effects[each.name]) for each in declared]
    refused = [OptionRow(_spelled(name, names), "", "", why) for name, why in found.refused.items()]
    return [*sorted(rows), *sorted(refused)]


def gate_rows(daemon: str) -> list[GateRow]:
    """All feature gates by name, which each daemon takes; effect: in this one."""
    (declared,) = (
        each for each in options_of(_DAEMONS[daemon].options).values() if each.name == FEATURE_GATES
    )
    acted_on = {*built_gates(declared.effect), *SPECIAL}
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
