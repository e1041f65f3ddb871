"""The base of all invariants: their parameters, their window, and words that they share.

Turns an entry `{invariant: {name: steady, within: 5m}, after: outage}` into the fields of an
`Invariant`. Without `after` the window is the one that the invariant is meant for.

Holds: a run that ends before an invariant could be broken keeps it, and the verdict says so.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import UNSET
from msgspec.structs import replace

from sim.api.objects import is_ready
from sim.api.store import Change
from sim.check.condition import Condition
from sim.check.expect import Expectation, Spec, duration_us
from sim.check.tally import Matter
from sim.ident import Names
from sim.verdict import Verdict, unit_of


class Invariant(Expectation):
    """Something that a cluster should always do.

    name_in_file: its name
    within_default, at_most_default: the defaults of its parameters; "" and None if it has none
    after_default: the start of its window, where the entry does not say it
    example: an entry of `expect`
    within_us, at_most: the parameters
    """

    name_in_file: ClassVar[str]
    within_default: ClassVar[str] = ""
    at_most_default: ClassVar[int | None] = None
    after_default: ClassVar[str] = ""
    example: ClassVar[str]

    def __init__(self, spec: Spec, names: Names) -> None:
        entry: Any = spec.invariant
        if not spec.after and self.after_default:
            spec = replace(spec, after=self.after_default)  # type: ignore[type-var]
        super().__init__(spec)
        within = self._parameter(entry, "within", self.within_default or UNSET)
        at_most = self._parameter(
            entry, "at_most", UNSET if self.at_most_default is None else self.at_most_default
        )
        self.within_us, self.at_most = 0, 0 if at_most is UNSET else int(at_most)
        if within is not UNSET:
            us = duration_us(within)
            if us is None or us < 0:
                raise ValueError(f"'within': {within!r} is no duration, write it as 90s or 5m")
            self.within_us, self.unit = us, unit_of(within)
        self.names = names
        self.reset()

    def _parameter(self, entry: Any, key: str, default: Any) -> Any:
        """The value of a parameter.  Raises ValueError for one that the invariant does not have."""
        value = UNSET if isinstance(entry, str) else getattr(entry, key)
        if value is UNSET:
            return default
        if default is UNSET:
            shown = {"at_most": "atMost"}.get(key, key)
            raise ValueError(f"{shown!r} has no effect on the invariant {self.name_in_file!r}")
        return value

    def matters(self) -> Sequence[Condition | Matter]:
        """None: it has no condition."""
        return ()

    @abstractmethod
    def resources(self) -> frozenset[str]:
        """The resources with commits that concern this invariant."""

    @property
    def deadline_us(self) -> int:
        """The time at which `within` is over."""
        return (self.from_us or 0) + self.within_us

    def stop_us(self, end_us: int) -> int:
        """The end of the window in a run that ends then."""
        return end_us if self.end_us is None else min(end_us, self.end_us)

    @property
    def since(self) -> str:
        """The start of the window, in words."""
        if not self.follows_last:
            return f"after {self.after}" if self.after else "after the start"
        return f"after the {self.after}" if self.opened_by_step else "after the start"

    @property
    def opened_by_step(self) -> bool:
        """True if a step has opened the window, and not the start of the run."""
        return bool(self.from_us)

    def kept(self, measured: str, wanted: str, values: tuple[float, ...] = ()) -> Verdict:
        """The verdict of an invariant that holds."""
        return Verdict(self.name, True, measured, wanted, values)

    def broken(self, measured: str, wanted: str, values: tuple[float, ...] = ()) -> Verdict:
        """The verdict of an invariant that is broken."""
        return Verdict(self.name, False, measured, wanted, values)

    def too_short(self, wanted: str, end_us: int) -> Verdict:
        """The verdict on a run that ended before the invariant could be broken."""
        left = self.shown(self.stop_us(end_us) - (self.from_us or 0))
        return self.kept(f"not judged: the run ended {left} {self.since}", wanted)

    def note(self, at_us: int, key: str, rev: int = 0) -> None:
        """The first breach decides."""
        if self.decided_us is None:
            self.witness, self.decided_us, self.subject = rev, at_us, key


class ReadyNodes:
    """Since when nodes are Ready without a gap."""

    def __init__(self) -> None:
        self._since_us: dict[str, int] = {}

    def take(self, change: Change) -> None:
        """Take a commit of a node."""
        name = change.item.obj["metadata"]["name"]
        if change.deleted or not is_ready(change.item.obj):
            self._since_us.pop(name, None)
        else:
            self._since_us.setdefault(name, change.at_us)

    def since_us(self, node: str) -> int | None:
        """Since when; None if it is not Ready."""
        return self._since_us.get(node)
