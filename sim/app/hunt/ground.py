"""The ground of a hunt: a scenario complete in itself, and what of it may vary.

Turns a scenario file, or a document, into the document that every candidate begins with: without
its section `hunt`, with objects, options and recorded values of files written out, and with the
invariants among its expectations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, cast

import msgspec

from sim.app.checked import checked_plan
from sim.app.hunt.judging import PROGRAMS
from sim.app.process.own_programs import declared
from sim.check import Mistakes, build
from sim.check.invariants import INVARIANTS
from sim.dataclass import dataclass
from sim.errors import InputError
from sim.ident import NAMES, Names
from sim.scenario.compile import compile_plan
from sim.scenario.plan.option_files import complete_cluster
from sim.scenario.plan.plan import HuntPlan
from sim.scenario.read.samples import read_samples
from sim.scenario.read.settings import override, settled
from sim.scenario.read.source import Document, read_documents
from sim.scenario.schema.sections import Expectation


@dataclass(frozen=True, slots=True)
class Ground:
    """What candidates have in common.

    document: the scenario without anything drawn
    hunt: what may be drawn
    folder: of the scenario
    unasked: names of the invariants that the scenario does not ask for
    """

    name: str
    document: Mapping[str, Any]
    hunt: HuntPlan
    folder: Path
    unasked: tuple[str, ...] = ()

    @property
    def own_steps(self) -> int:
        """Number of the steps of a candidate that are not drawn; they come first."""
        return len(self.document["spec"].get("timeline", ()))

    def without(self, names: Sequence[str]) -> Ground:
        """The ground without expectations of these names."""
        spec = self.document["spec"]
        left = [one for one in spec["expect"] if one["name"] not in names]
        return replace(self, document={**self.document, "spec": {**spec, "expect": left}})


def ground_of(
    scenario: Path | Mapping[str, Any],
    settings: Sequence[str] = (),
    programs: Mapping[str, str] | None = None,
) -> Ground:
    """The ground of a scenario.  Raises InputError with every error.

    scenario: its file, or the document itself
    programs: names and functions of programs that run in each candidate
    """
    folder = Path()
    document = Document("", deepcopy(scenario))
    if isinstance(scenario, Path):
        checked_plan(scenario, settings)
        folder, document = scenario.parent, read_documents(scenario)[0]
    settled(document, settings)
    given = programs or {}
    document = replace(document, value=declared(document.value, given))
    spec = document.value["spec"]
    hunted = document.value if "hunt" in spec else {**document.value, "spec": {**spec, "hunt": {}}}
    plan = compile_plan(replace(document, value=hunted), folder)
    assert plan.hunt is not None
    names = NAMES[plan.cluster.naming]
    vary = {
        key: _complete_values(document, folder, names, key, plan.hunt.vary[key]) for key in plan.hunt.vary
    }
    hunt = replace(plan.hunt, vary=vary)
    invariants = hunt.invariants
    if invariants is None:
        invariants = tuple({"name": f"invariant {name}", "invariant": name} for name in INVARIANTS)
    for key, entries in (("invariants", invariants), ("maximise", hunt.targets)):
        for index, entry in enumerate(entries):
            try:
                build(msgspec.convert(dict(entry), Expectation), names)
            except Mistakes as error:
                raise document.error(("spec", "hunt", key, index), str(error)) from None
    complete = _complete(spec, folder)
    if "cluster" in spec:
        complete["cluster"] = complete_cluster(document, folder, names)
    complete["expect"] = [*_with_samples(document, folder), *map(dict, invariants)]
    unasked = tuple(str(one["name"]) for one in invariants) if hunt.invariants is None else ()
    whole = {**document.value, "spec": complete, **({PROGRAMS: dict(given)} if given else {})}
    return Ground(plan.name, whole, hunt, folder, unasked)


def _complete(spec: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The section without `hunt`, with the objects of files in place of these."""
    result = {key: value for key, value in spec.items() if key not in ("hunt", "variants")}
    result["objects"] = _written_out(spec.get("objects", ()), folder)
    result["timeline"] = [
        {**step, "apply": {"objects": _applied(step["apply"], folder)}} if "apply" in step else step
        for step in spec.get("timeline", ())
    ]
    return result


def _complete_values(
    document: Document, folder: Path, names: Names, key: str, values: Sequence[Any]
) -> tuple[Any, ...]:
    """The values of a varied part with the content or the path of each file that they name."""
    found: list[Any] = []
    for value in values:
        varied = Document(document.file, deepcopy(document.value))
        override(varied, f"{key}={msgspec.json.encode(value).decode()}")
        path = [*varied.settings][-1]
        if path[:2] == ("spec", "cluster") and len(path) > 2:
            value = reduce(getitem, path[2:], cast(Any, complete_cluster(varied, folder, names)))
        found.append(value)
    return tuple(found)


def _with_samples(document: Document, folder: Path) -> Iterator[Any]:
    """The expectations, with the recorded values of files in place of these."""
    for index, entry in enumerate(document.value["spec"].get("expect", ())):
        over = entry.get("over", {})
        if "like" in over:
            like = read_samples(document, folder, over["like"], ("spec", "expect", index, "over", "like"))
            kept = {each: like[each] for each in ("level", "values") if each in like}
            entry = {**entry, "over": {**over, "like": kept}}
        yield entry


def _applied(body: Mapping[str, Any], folder: Path) -> list[Any]:
    return _written_out([*body.get("files", ()), *body.get("objects", ())], folder)


def _written_out(entries: Sequence[Any], folder: Path) -> list[Any]:
    objects: list[Any] = []
    for entry in entries:
        if isinstance(entry, str):
            objects += [one.value for one in read_documents(folder / entry)]
        else:
            objects.append(entry)
    return objects


def refuse_nothing_to_judge(ground: Ground) -> None:
    """Raise InputError if there is nothing that a candidate could break."""
    if not ground.document["spec"]["expect"] and not ground.hunt.targets:
        problem = "nothing must hold, and nothing is to be maximised"
        raise InputError(problem, ground.name, "give the scenario expectations or invariants")
