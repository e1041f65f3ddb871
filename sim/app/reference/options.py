"""The options of every daemon, from the declarations that their parsers read.

Turns the options classes of `sim.options` into rows: an option with its default and its effect, or
with the reason why it has none and is refused; and the feature gates, each with its stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sim.ident import NAMES, Names
from sim.options.apiserver.server import ApiServerFlags
from sim.options.base import Option, duration, effects_of, idle_reason, options_of, refusals_of
from sim.options.controllers.manager import ControllerManagerOptions
from sim.options.features.gates import SPECIAL, gates_of
from sim.options.features.table import GATES
from sim.options.node.agent import NodeAgentOptions
from sim.options.programs import ALONE
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


def daemon_named(name: str) -> tuple[str, str]:
    """A daemon, and the naming set that has this name for it; "" twice if there is no such daemon.

    name: such as apiserver, which is in both sets, kube-apiserver, kubelet or orchlet
    """
    if name in DAEMONS:
        return name, ""
    for naming, names in NAMES.items():
        for daemon in DAEMONS:
            if name == (names.node_agent if daemon == "node-agent" else names.component(daemon)):
                return daemon, naming
    return "", ""


def option_rows(daemon: str, names: Names, *, alone: bool = False) -> list[OptionRow]:
    """The options of a daemon by name, those with an effect first.

    alone: of the program that runs alone, in place of the daemon of a simulated cluster
    """
    options = _DAEMONS[daemon]
    classes = (options, *(ALONE[daemon] if alone else ()))
    rows: dict[str, OptionRow] = {}
    for one in reversed(classes):
        effects = effects_of(one, alone=alone)
        for each in options_of(one).values():
            effect = effects[each.name]
            taken = idle_reason(effect)
            shown = (each.spelled(names), _default(each, names))
            row = OptionRow(*shown, "", "", taken) if taken else OptionRow(*shown, effect)
            rows[each.name] = row
    reasons = refusals_of(options.__name__, alone=alone)
    refused = [
        OptionRow(_spelled(name, names), "", "", why) for name, why in reasons.items() if name not in rows
    ]
    return [*sorted(rows.values()), *sorted(refused)]


def alone_rows(daemon: str, names: Names) -> list[OptionRow]:
    """The options that a daemon takes besides where it runs alone, by name."""
    rows = []
    for group in ALONE[daemon]:
        effects = effects_of(group)
        for each in options_of(group).values():
            shown, effect = (each.spelled(names), _default(each, names)), effects[each.name]
            taken = idle_reason(effect)
            rows.append(OptionRow(*shown, "", "", taken) if taken else OptionRow(*shown, effect))
    return sorted(rows)


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
    return name.replace("{agent}", names.node_agent).format(short=names.short, product=names.product)
