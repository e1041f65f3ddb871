"""What each program is: its options, in groups, and how it runs.

Holds: a program imports its actor when it runs, so that `--help` is quick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sim.errors import InputError
from sim.ident import NAMES, Names
from sim.options.base import Option, options_of, refusals_of
from sim.options.programs import ALONE


class Program(NamedTuple):
    """One program.

    part: "controller-manager"; "" is the node agent
    about: a sentence for its help
    options: its options classes, the one of the component first
    run: runs it with the raw values of its options, and what sets the verbosity of its log;
        returns the exit status
    """

    part: str
    about: str
    options: tuple[type[Any], ...]
    run: Callable[[Names, Mapping[str, object], Callable[[int], None]], int]

    def name(self, names: Names) -> str:
        """The name of its command."""
        return names.component(self.part) if self.part else names.node_agent

    def known(self, names: Names) -> dict[str, Option]:
        """Its options by name."""
        return {
            option.spelled(names): option for each in self.options for option in options_of(each).values()
        }

    def refused(self, names: Names) -> dict[str, str]:
        """Options of upstream without an effect here, each with its reason."""
        reasons = refusals_of(self.options[0].__name__, alone=True)
        spelled = {
            name.format(short=names.short, product=names.product): why for name, why in reasons.items()
        }
        return {name: why for name, why in spelled.items() if name not in self.known(names)}


def _controller_manager() -> Program:
    from sim.app.daemons.controller_manager import run
    from sim.options.controllers.manager import ControllerManagerOptions

    about = "Runs the controllers of a cluster, one process at a time by its lease."
    return Program("controller-manager", about, (ControllerManagerOptions, *ALONE["controller-manager"]), run)


def _scheduler() -> Program:
    from sim.app.daemons.scheduler import run
    from sim.options.scheduler import SchedulerOptions

    about = "Chooses a node for each pod."
    return Program("scheduler", about, (SchedulerOptions, *ALONE["scheduler"]), run)


def _api_server() -> Program:
    from sim.app.daemons.api_server import run
    from sim.options.apiserver.server import ApiServerFlags

    about = "Serves the API of a cluster, and keeps its objects."
    return Program("apiserver", about, (ApiServerFlags, *ALONE["apiserver"]), run)


def _node_agent() -> Program:
    from sim.app.daemons.agent.composition import run
    from sim.options.node.agent import NodeAgentOptions

    about = "Registers a simulated machine as a node, and runs the pods that are bound to it."
    return Program("", about, (NodeAgentOptions, *ALONE["node-agent"]), run)


PROGRAMS: Mapping[str, Callable[[], Program]] = {
    "apiserver": _api_server,
    "controller-manager": _controller_manager,
    "scheduler": _scheduler,
    "": _node_agent,
}


def program_named(command: str) -> tuple[Program, Names]:
    """The program of the name of a command, in either naming.  Raises InputError."""
    for names in NAMES.values():
        for part, make in PROGRAMS.items():
            if command == (names.component(part) if part else names.node_agent):
                return make(), names
    entry = [
        names.component(part) if part else names.node_agent for names in NAMES.values() for part in PROGRAMS
    ]
    raise InputError(f"{command} is no program", "", f"one of: {', '.join(entry)}")
