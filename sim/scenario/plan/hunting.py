"""The section `hunt` of a scenario to a plan of what may be drawn.

Each entry of the palette is planned once as a draw of a random step, so that a wrong one has its
place; the usual draws of a kind of step (`StepKind.drawn`) that this cluster cannot have are left
out.

Holds: the entries of a plan are texts and numbers of the file; a drawn step is one of them with its
choices made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import msgspec
from msgspec import UnsetType

from sim.errors import InputError, suggestion_or_all
from sim.faults import FAULTS
from sim.faults.shared.kinds import StepKind
from sim.patterns import pattern
from sim.scenario.actions import KINDS, USER_ACTIONS
from sim.scenario.plan.arrivals import VARIED, orders_of
from sim.scenario.plan.context import SERVERS, Compiler, Known
from sim.scenario.plan.plan import HuntPlan, PaletteStep, PlannedAction
from sim.scenario.plan.timeline import Planner
from sim.scenario.read.settings import override
from sim.scenario.read.source import Document, Path_, parse_documents, parts_of
from sim.scenario.schema.hunting import Hunt, Orders, PaletteEntry
from sim.scenario.schema.sections import Expectation
from sim.scenario.schema.steps import Drawn
from sim.units import MINUTE, format_duration, parse_duration_us

PATH: Path_ = ("spec", "hunt")
FROM_MAX_US = 2 * MINUTE
RANGE_MAX = 1_000  # whole numbers of a range
STEPS_OF_RANGE = 8  # durations that are drawn from a range
_SET = pattern(r"\{([a-z]+)\}")
_RANGE = pattern(r"^(\d+)\.\.(\d+)$")
_TARGET = pattern(r"^(unavailability of|time until)\s+(.+)$")
_ALL: Mapping[str, Sequence[StepKind]] = {"faults": FAULTS, "users": USER_ACTIONS}
Check = Callable[[Drawn, str, Path_], PlannedAction]


def plan_hunt(
    compiler: Compiler,
    given: Hunt | UnsetType,
    known: Known,
    objects: Sequence[Mapping[str, Any]],
    duration_us: int,
) -> HuntPlan | None:
    """The plan of a hunt; None if the scenario has no such section, or it has errors, which the
    compiler collects.

    known: what the steps of the timeline may name
    """
    if isinstance(given, UnsetType) or not known.sure:
        return None
    plans: list[HuntPlan] = []
    with compiler.part(PATH):
        check = Planner(compiler, known, known.scheme.names.naming, duration_us, ()).action
        palette = _Palette(compiler.document, known, objects, check)
        plans.append(_planned(compiler, given, palette, duration_us))
    return next(iter(plans), None)


def _planned(compiler: Compiler, given: Hunt, palette: _Palette, duration_us: int) -> HuntPlan:
    document = compiler.document
    from_us, for_us, quiet_us = _times(compiler, given, duration_us)
    if given.steps[0] > given.steps[1]:
        low, high = given.steps
        raise document.error((*PATH, "steps"), f"from {low} to {high} there is no number", "lowest first")
    steps = palette.entries(given.palette)
    if not steps:
        remedy = "name nodes or processes, or leave it out for all faults of the cluster"
        raise document.error((*PATH, "palette"), "no step of it has a target in this cluster", remedy)
    vary = {key: _varied(document, key, values) for key, values in given.vary.items()}
    if not isinstance(given.arrivals, UnsetType):
        vary[VARIED] = palette.orders(compiler, given.arrivals)
    invariants: tuple[Mapping[str, Any], ...] | None = None
    if not isinstance(given.invariants, UnsetType):
        invariants = tuple(_invariant(document, index, one) for index, one in enumerate(given.invariants))
    start = format_duration(from_us)
    targets = tuple(_target(document, index, one, start) for index, one in enumerate(given.maximise))
    low, high = given.steps
    return HuntPlan(steps, from_us, for_us, quiet_us, (low, high), given.at_once, vary, invariants, targets)


def _times(compiler: Compiler, given: Hunt, duration_us: int) -> tuple[int, int, int]:
    """The earliest time of a step, the time in which they are drawn, and the quiet time."""

    def stated(key: str, text: str | None, otherwise_us: int) -> int:
        return otherwise_us if text is None else compiler.duration(text, (*PATH, key))

    from_us = stated("from", given.from_, min(FROM_MAX_US, duration_us // 4))
    left_us = max(0, duration_us - from_us)
    quiet_us = stated("quiet", given.quiet, left_us // 3 if given.for_ is None else 0)
    for_us = stated("for", given.for_, max(0, left_us - quiet_us))
    if given.for_ is not None and given.quiet is None:
        quiet_us = max(0, left_us - for_us)
    if not for_us:
        key = "for" if given.for_ is not None else "quiet" if given.quiet is not None else "from"
        problem = "leaves no time in which a step is drawn"
        raise compiler.document.error((*PATH, key), problem, f"the run takes {format_duration(duration_us)}")
    if from_us + for_us + quiet_us > duration_us:
        total = format_duration(from_us + for_us + quiet_us)
        remedy = f"shorten one of them, or give the scenario duration: {total}"
        raise compiler.document.error(PATH, f"from, for and quiet end at {total}, after the run", remedy)
    return from_us, for_us, quiet_us


class _Palette:
    def __init__(
        self, document: Document, known: Known, objects: Sequence[Mapping[str, Any]], check: Check
    ) -> None:
        self._document, self._known, self._check = document, known, check
        self._objects = objects

    def entries(self, palette: Sequence[str | PaletteEntry]) -> tuple[PaletteStep, ...]:
        """The entries of a palette that the cluster can have, those of words in place of these."""
        result: list[PaletteStep] = []
        written = self._document.value["spec"]["hunt"].get("palette", ())
        for index, one in enumerate(palette):
            path: Path_ = (*PATH, "palette", index)
            if isinstance(one, str):
                result += self._usual(one, path)
            else:
                result.append(self._entry({**written[index], "values": one.values}, path))
        return tuple(result)

    def _usual(self, word: str, path: Path_) -> Iterator[PaletteStep]:
        """The usual draws of a kind of step, or of all of a group, that this cluster can have."""
        kinds = [kind for kind in _ALL.get(word, ()) if not kind.by_name_only]
        kinds = kinds or [kind for kind in KINDS.values() if kind.name == word]
        if not kinds:
            names = (*_ALL, *(kind.name for kind in KINDS.values()))
            raise self._document.error(
                path, f"no kind of step is named {word!r}", suggestion_or_all(word, names)
            )
        for kind in kinds:
            for document in parse_documents(kind.drawn, kind.name):
                for raw in document.value:
                    try:
                        yield self._entry(raw, path)
                    except InputError:  # the cluster has no such target
                        continue

    def _entry(self, raw: Mapping[str, Any], path: Path_) -> PaletteStep:
        """An entry, planned with the first values that it can have.  Raises InputError."""
        body = {key: value for key, value in raw.items() if key not in ("weight", "values", "then")}
        values = {key: self._members(key, one, path) for key, one in raw.get("values", {}).items()}
        step = PaletteStep("", body, raw.get("weight", 1), values, raw.get("then"))
        error: InputError | None = None
        for chosen in product(*values.values()):
            try:
                drawn = msgspec.convert(with_values(body, dict(zip(values, chosen, strict=True))), Drawn)
                kind = next(kind for kind in KINDS.values() if kind.name in body)
                self._check(drawn, kind.attribute, path)
                return replace(step, kind=kind.name)
            except msgspec.ValidationError as problem:
                raise self._document.error(path, str(problem)) from None
            except StopIteration:
                raise self._document.error(path, "an entry has exactly one action") from None
            except InputError as problem:
                error = error or problem
        assert error is not None
        raise error

    def orders(self, compiler: Compiler, given: Orders) -> tuple[Any, ...]:
        """The orders of arrival that may be drawn.  Raises InputError."""
        senders = [*(node.name for node in self._known.nodes), *self._known.actors]
        naming = self._known.scheme.names.naming
        return orders_of(compiler, given, (*PATH, "arrivals"), naming, senders)

    def _members(self, key: str, given: Any, path: Path_) -> tuple[Any, ...]:
        """The values of a parameter, with each set of the cluster in place of its name."""
        result: list[Any] = []
        for one in [f"{{{given}}}"] if isinstance(given, str) else given:
            name = _SET.search(one) if isinstance(one, str) else None
            if name is None:
                result.append(one)
            else:
                result += [
                    one.replace(name[0], member) for member in self._set(name[1], (*path, "values", key))
                ]
        if not result:
            raise self._document.error(
                (*path, "values", key), "there is nothing to draw from in this cluster"
            )
        return tuple(result)

    def _set(self, name: str, path: Path_) -> Sequence[str]:
        entry = self._known
        sets: dict[str, Sequence[str]] = {
            "nodes": [node.name for node in entry.nodes],
            "zones": sorted({node.zone for node in entry.nodes if node.zone}),
            "servers": [one for one in entry.actors if one.startswith(SERVERS)],
            "processes": entry.actors,
            "drivers": entry.drivers,
            "selectors": self._selectors(),
        }
        if name in sets:
            return sets[name]
        if entry.scheme.named(name) is None:
            remedy = suggestion_or_all(name, [*sets, "deployments"])
            raise self._document.error(path, f"the cluster has no set {name!r}", remedy)
        return [one for namespace, one in entry.of_kind(name) if namespace == "default"]

    def _selectors(self) -> Sequence[str]:
        """The labels by which workloads of the default namespace select their pods."""
        result: dict[str, None] = {}
        for one in self._objects:
            labels = ((one.get("spec") or {}).get("selector") or {}).get("matchLabels")
            if labels and one["metadata"].get("namespace", "default") == "default":
                result[",".join(f"{key}={value}" for key, value in labels.items())] = None
        return [*result]


def with_values(body: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the body of a step with parameters in place, by their paths."""
    changed = deepcopy(dict(body))
    for key, value in values.items():
        at: Any = changed
        parts = parts_of(key)
        for part, following in pairwise(parts):
            if isinstance(at, dict) and part not in at:
                at[part] = [] if isinstance(following, int) else {}
            at = at[part]
        if isinstance(at, list) and parts[-1] == len(at):
            at.append(value)
        else:
            at[parts[-1]] = value
    return changed


def _varied(document: Document, key: str, given: Sequence[Any] | str) -> tuple[Any, ...]:
    """The values of a varied part of the scenario, each of which is put in place once."""
    path: Path_ = (*PATH, "vary", key)
    values = tuple(given) if not isinstance(given, str) else _range(document, given, path)
    if not values:
        raise document.error(path, "has no values")
    try:
        override(Document(document.file, deepcopy(document.value)), f"{key}={json.dumps(values[0])}")
    except InputError as error:
        raise document.error(path, error.message, error.remedy) from None
    return values


def _range(document: Document, text: str, path: Path_) -> tuple[Any, ...]:
    """The values of a range of whole numbers or of durations."""
    whole = _RANGE.match(text)
    if whole is not None:
        low, high = int(whole[1]), int(whole[2])
        if low <= high < low + RANGE_MAX:
            return tuple(range(low, high + 1))
    first, _, last = text.partition("..")
    try:
        low, high = parse_duration_us(first), parse_duration_us(last)
    except ValueError:
        low, high = 1, 0
    if not 0 < low <= high:
        raise document.error(path, f"{text!r} is no range", "write 3..6 or 10s..5m, or a list of values")
    ratio = (high / low) ** (1 / (STEPS_OF_RANGE - 1))
    return tuple(dict.fromkeys(rounded(round(low * ratio**step)) for step in range(STEPS_OF_RANGE)))


def rounded(us: int) -> str:
    """A duration near to one, with two digits: 1m20s, 350ms."""
    power = 10 ** max(0, len(str(us)) - 2)
    return format_duration(round(us / power) * power)


def _invariant(document: Document, index: int, given: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The expectation of an invariant; its name is checked where expectations are built."""
    entry: Mapping[str, Any] = {"name": given, "invariant": given} if isinstance(given, str) else given
    return _expectation(document, entry, (*PATH, "invariants", index))


def _expectation(document: Document, entry: Mapping[str, Any], path: Path_) -> Mapping[str, Any]:
    try:
        msgspec.convert(dict(entry), Expectation)
    except msgspec.ValidationError as error:
        raise document.error(path, str(error)) from None
    return entry


def _target(document: Document, index: int, given: str | Mapping[str, Any], start: str) -> Mapping[str, Any]:
    """The expectation that measures what is to be maximised, from the first possible step on."""
    path: Path_ = (*PATH, "maximise", index)
    if not isinstance(given, str):
        return _expectation(document, {"name": f"target {index + 1}", "after": start, **given}, path)
    result = _TARGET.match(given)
    if result is None:
        remedy = "write 'unavailability of deployments/web' or 'time until CONDITION'"
        raise document.error(path, f"{given!r} measures nothing", remedy)
    if result[1] == "time until":
        measure: dict[str, Any] = {"when": result[2], "within": ["0s", "0s"]}
    else:
        kind, _, name = result[2].partition("/")
        measure = {"unavailability": {"of": f"{kind.removesuffix('s')}s/{name}", "atMost": "0s"}}
    return _expectation(document, {"name": given, "after": start, **measure}, path)
