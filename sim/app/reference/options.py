"""The options of every daemon, from the declarations that their parsers read.

Turns the options classes of `sim.options` into rows: an option with its default and its effect, and
the names that the specification has and this program refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sim.ident import Names
from sim.options import api_server, controller_manager, node_agent, scheduler
from sim.options.base import Option, options_of
from sim.units import format_duration


class OptionRow(NamedTuple):
    """One option.  effect: "" for an option that is refused because it would have no effect."""

    name: str
    default: str
    effect: str


class _Daemon(NamedTuple):
    options: type[Any]
    refused: tuple[str, ...]


_DAEMONS: Mapping[str, _Daemon] = {
    "apiserver": _Daemon(api_server.ApiServerFlags, tuple(api_server.WITHOUT_EFFECT)),
    "controller-manager": _Daemon(
        controller_manager.ControllerManagerOptions, tuple(controller_manager.WITHOUT_EFFECT)
    ),
    "scheduler": _Daemon(scheduler.SchedulerOptions, tuple(scheduler.WITHOUT_EFFECT)),
    "node-agent": _Daemon(node_agent.NodeAgentOptions, tuple(node_agent.WITHOUT_EFFECT)),
}
DAEMONS = tuple(_DAEMONS)


def option_rows(daemon: str, names: Names) -> list[OptionRow]:
    """The options of a daemon by name, those with an effect first."""
    found = _DAEMONS[daemon]
    declared = options_of(found.options).values()
    rows = [OptionRow(each.spelled(names), _default(each, names), each.effect) for each in declared]
    refused = [_spelled(name, names) for name in found.refused]
    return [*sorted(rows), *(OptionRow(name, "", "") for name in sorted(refused))]


def _default(declared: Option, names: Names) -> str:
    default = declared.default
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, str):
        return default.replace("{short}", names.short)
    if isinstance(default, int) and declared.unit == "us":
        return format_duration(default)
    return str(default)


def _spelled(name: str, names: Names) -> str:
    return name.replace("{agent}", names.node_agent).format(short=names.short)
