"""Every fault and action of scenarios as a method of a running cluster.

    cluster.do.fail(nodes={"name": "node-3"}, how="power-loss", for_="5m")
    cluster.do.partition(between=["zone a", "apiserver"])
    cluster.do.heal(step="fail-1")

Turns a call into a step of a timeline, with the names, the checks and the trace records of a step
in a scenario file.  The step occurs as soon as virtual time is run.

Holds: a call that raises InputError has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from sim.app.director import Director
from sim.app.parts.ports import BuiltCluster
from sim.app.reference.steps import page_of
from sim.errors import InputError, suggestion
from sim.faults.shared.kinds import StepKind
from sim.scenario.actions import KINDS
from sim.scenario.compile import plan_step
from sim.scenario.plan.plan import PlannedStep
from sim.units import format_duration, parse_duration_us

StepHook = Callable[[str, str, int], None]
# Kind, parameters, `for_` and `step_name` of a step to its name.
Perform = Callable[[StepKind, dict[str, Any], str | None, str], str]
# Words of Python that are keys of a step.
_TRAILING = "_"


class Steps:
    """The methods, one for each kind of step under its name in Python; `dir()` lists them.

    Each takes the parameters of the step, in Python's or the file's spelling, and

    for_: how long the effect lasts
    step_name: the name of the step, by which `heal(step=...)` ends it; by default the kind and a
        number

    and returns the name of the step.
    """

    def __init__(self, cluster: BuiltCluster) -> None:
        self._cluster = cluster
        self._hooks: list[StepHook] = []
        self._director = Director(cluster, self._occurred)
        self._kinds: dict[str, str] = {}  # of the steps so far, by name

    def on_step(self, hook: StepHook) -> None:
        """Call `hook` with name, kind and time of each occurrence and of each end."""
        self._hooks.append(hook)

    def _occurred(self, name: str, kind: str, at_us: int) -> None:
        for hook in self._hooks:
            hook(name, kind, at_us)

    def schedule(
        self,
        steps: tuple[PlannedStep, ...],
        zones: Mapping[str, str] | None = None,
        room: int = 0,
        later: Collection[str] = (),
    ) -> None:
        """Schedule the timeline of a scenario.

        zones: the zone of each node, for conditions about a zone; default the nodes of the plan
        room: of orders, for steps that `insert` puts between these
        later: steps that `insert` schedules
        """
        self._kinds.update({step.name: step.kind for step in steps})
        if zones is not None:
            self._director.zones = zones
        self._director.schedule(steps, room, later)

    def insert(
        self, steps: tuple[PlannedStep, ...], zones: Mapping[str, str], later: Collection[str] = ()
    ) -> None:
        """Schedule what else a timeline has, of which the steps so far are the common part.

        later: steps that another call schedules
        """
        self._kinds.update({step.name: step.kind for step in steps})
        self._director.learn(zones)
        self._director.insert(steps, later)

    def __getattr__(self, name: str) -> Callable[..., str]:
        kind = KINDS.get(name)
        if kind is None:
            raise AttributeError(f"there is no kind of step {name!r} {suggestion(name, KINDS)}".rstrip())
        return step_method(kind, self.perform)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *KINDS]

    def perform(
        self,
        kind: StepKind,
        parameters: dict[str, Any],
        for_: str | None = None,
        step_name: str = "",
        *,
        at_us: int = 0,
    ) -> str:
        """Plan a step and schedule it now, or at `at_us` if that is later; the name of the step.
        Raises InputError.
        """
        name = step_name or f"{kind.name}-{sum(each == kind.name for each in self._kinds.values()) + 1}"
        self.perform_entry(entry_of(kind, parameters, for_, name), at_us)
        return name

    def perform_timeline(self, steps: Iterable[Mapping[str, Any]]) -> None:
        """Schedule steps of a timeline, which have names: at their times, or after another one."""
        at_us: dict[str, int] = {}
        for step in steps:
            entry = {key: value for key, value in step.items() if key not in ("at", "after", "delay")}
            begin_us = at_us[step["after"]] if "after" in step else 0
            at_us[step["name"]] = begin_us + parse_duration_us(step.get("at", step.get("delay", "0s")))
            self.perform_entry(entry, at_us[step["name"]])

    def perform_entry(self, entry: Mapping[str, Any], at_us: int = 0, by: str = "") -> None:
        """As `perform`, for the entry of a step with a name.  by: the user that does it"""
        planned = self.check(entry, at_us, by)
        self._kinds[planned.name] = planned.kind
        self._director.schedule((planned,))
        self._cluster.kernel.kick()

    def check(self, entry: Mapping[str, Any], at_us: int = 0, by: str = "") -> PlannedStep:
        """The step of an entry of a scenario that is to be done now.  Raises InputError."""
        name = entry["name"]
        if name in self._kinds:
            raise InputError(f"a step is named {name!r} already", "", "choose another name")
        step = {**entry, "at": format_duration(max(at_us, self._cluster.kernel.now_us)), "by": by}
        return plan_step(step, self._cluster.plan, self._cluster.existing, self._kinds)

    @property
    def active(self) -> Collection[str]:
        """The occurrences of steps with an effect that has not ended."""
        return self._director.active


def entry_of(kind: StepKind, parameters: Mapping[str, Any], for_: str | None, name: str) -> dict[str, Any]:
    """A step of a timeline without its time, of parameters in Python's or the file's spelling."""
    spelled = {field.name: field.encode_name for field in msgspec.structs.fields(kind.parameters)}
    given = {
        spelled.get(key.removesuffix(_TRAILING), key.removesuffix(_TRAILING)): value
        for key, value in parameters.items()
    }
    return {"name": name, kind.name: given} | ({} if for_ is None else {"for": for_})


def step_method(kind: StepKind, perform: Perform) -> Callable[..., str]:
    """The method of a kind of step.  perform: carries out a step and returns its name"""

    def method(*, for_: str | None = None, step_name: str = "", **parameters: Any) -> str:
        return perform(kind, parameters, for_, step_name)

    method.__name__ = kind.attribute
    method.__doc__ = documentation(kind)
    return method


def documentation(kind: StepKind) -> str:
    """The docstring of the method of a kind of step."""
    page = page_of(kind)
    lines = [page.documentation, ""]
    for name, default, meaning in page.parameters:
        shown = f" (default {default})" if default not in ("", "required") else ""
        lines.append(f"{name}: {meaning}{shown}")
    return "\n".join([*lines, "", "In a scenario:", page.example])
