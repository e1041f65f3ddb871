"""The definition of a kind of step: its parameters, its check, its effect and its documentation.

Turns the parameters of a step (text from the file) into an `Action` (plain checked values), and an
action into its effect on a cluster.  `StepKind.check` is pure and is used by `sim.scenario`;
the words of a `Fault` are used by `sim.report`; `sim.app.director` calls
`Action.begin`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from enum import Enum
from typing import Any, ClassVar, Protocol, Self, TypeVar

from sim.dataclass import dataclass
from sim.faults.shared.cluster import Target
from sim.faults.shared.ledger import Aspect, AspectName, Ledger
from sim.faults.shared.parameters import Strict
from sim.units import Virtual

T = TypeVar("T")
Undo = Callable[[], None]


class Stage(Protocol):
    """The cluster and the faults, as an action uses them when its step occurs."""

    @property
    def cluster(self) -> Target:
        """The running cluster."""
        ...

    @property
    def faults(self) -> Ledger:
        """The active faults of the cluster."""
        ...

    def heal(self, target: str, aspect: AspectName | None = None) -> None:
        """End the faults of a node or process, or those of one aspect."""
        ...

    def end_step(self, name: str) -> None:
        """End the active occurrences of a step, or one occurrence NAME/3."""
        ...

    def state(self, make: Callable[[], T]) -> T:
        """The one value of this class in a run, made when it is first needed."""
        ...

    def kept(self, at_us: Virtual) -> Any:
        """The snapshot of the storage at an instant that an action of the run looks back to."""
        ...

    def act(
        self, name: str, kind: str, action: Action, for_us: int | None, then: Callable[[str], None]
    ) -> None:
        """Carry an action out as an occurrence of its own.

        then: called when its commands and its effect (after `for_us`) have ended, with what has
            failed of the commands, "" for nothing
        """
        ...

    def when(self, condition: str, then: Callable[[], None]) -> Undo:
        """Call `then` once when a condition holds; the result cancels that."""
        ...


class Action(ABC):
    """What one step does, as plain checked values.  Subclasses are frozen dataclasses.

    untraced: fields that the trace record of the step does not show
    picked: the field that holds the names among which `pick` draws: "nodes", "actors" or ""
    lasts: False if nothing ends the effect, although the effects of its kind may end
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]
    untraced: ClassVar[tuple[str, ...]] = ()
    picked: ClassVar[str] = ""
    lasts: ClassVar[bool] = True

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions that it waits for."""
        return ()

    @property
    def past_us(self) -> Virtual | None:
        """The earlier instant of the run of which it needs the state."""
        return None

    @abstractmethod
    def begin(self, stage: Stage, step: str) -> Undo | None:
        """Carry the action out for an occurrence `step`; returns what ends it, if it has an end."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes or processes among which `pick` draws; empty if the action names none."""
        found: tuple[str, ...] = getattr(self, self.picked) if self.picked else ()
        return found

    def only(self, hosts: tuple[str, ...]) -> Self:
        """The same action on these nodes or processes."""
        return replace(self, **{self.picked: hosts})

    def may_end(self, step: str) -> bool:
        """True if the action may end the fault of the step of this name."""
        return False

    def detail(self) -> dict[str, Any]:
        """The fields of the action for its trace record."""
        names = [one.name for one in fields(self) if one.name not in self.untraced]
        values = {name: getattr(self, name) for name in names}
        return {
            name: value
            for name, value in values.items()
            if value is not None and (name, value) != ("by_us", 0)
        }


class Imposed(Action):
    """A fault that the ledger holds until it is lifted, healed or ended by `for`."""

    __slots__ = ()

    @abstractmethod
    def impose(self, stage: Stage, step: str) -> None:
        """Put the fault into force."""

    def lift(self, stage: Stage, step: str) -> None:
        """End the fault."""
        stage.faults.lift(step)

    def begin(self, stage: Stage, step: str) -> Undo:
        """Impose the fault; the result lifts it."""
        self.impose(stage, step)
        return lambda: self.lift(stage, step)


class Ends(Enum):
    """How the effect of a step ends."""

    AT_ONCE = "at once"  # the step has no lasting effect, or one that nothing ends
    LATER = "later"  # by `for`, by a parameter, or by another step
    ITSELF = "by itself"  # by a parameter that is always given, or by another step


@dataclass(frozen=True, kw_only=True)
class StepKind:
    """One kind of step.

    name: the key in the file, in camelCase
    parameters: the mapping under the key
    check: turns the parameters into an action, or raises InputError with the place of the error
    documentation: one paragraph for authors of scenarios
    example: steps for the page of authors, one line each
    duration: the parameter (camelCase) that says how long the effect lasts; "" if there is none
    drawn: the usual entries of a hunt's palette, one line each; "" if the kind is not drawn unasked
    by_name_only: True if only a palette that names the kind has these entries
    """

    name: str
    parameters: type[Strict]
    check: Callable[[Any, Any], Action]
    documentation: str
    example: str
    ends: Ends = Ends.AT_ONCE
    duration: str = ""
    drawn: str = ""
    by_name_only: bool = False

    @property
    def attribute(self) -> str:
        """The name of the field in Python: `drop_watches` for `dropWatches`."""
        return _snake_case(self.name)

    def duration_of(self, given: Strict) -> str | None:
        """What the parameters say of the duration of the effect; None if they say nothing."""
        found = getattr(given, _snake_case(self.duration)) if self.duration else None
        return found if isinstance(found, str) else None


@dataclass(frozen=True, kw_only=True)
class Fault(StepKind):
    """A kind of step that breaks something or repairs it.

    aspects: the aspects of targets that only this file defines
    happens: words for the states of processes that it records: {"lag": "its watch caches lag"}
    words: words for values in the trace record of its step, by field and value; "" shows nothing
    amounts: fields of that record that are shown with a binary suffix
    """

    aspects: tuple[Aspect, ...] = ()
    happens: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[tuple[str, Any], str] = field(default_factory=dict)
    amounts: tuple[str, ...] = ()


def _snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)
