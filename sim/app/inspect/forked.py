"""Another future of a run: its scenario up to an instant, and other steps from there.

Turns a trace or a scenario, an instant and files of steps into the plan of a run that is equal to
the first up to the instant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sim.app.inspect.moment import plan_of_trace
from sim.app.options import check_options
from sim.app.possible import expectations_of
from sim.app.process.own_programs import bound, with_functions
from sim.app.reference.shipped import scenario_path
from sim.app.travel.common import later_steps
from sim.errors import InputError
from sim.kernel.blocks import MARK
from sim.scenario.compile import compile_plan, load
from sim.scenario.plan.plan import Plan
from sim.scenario.plan.timeline import awaited
from sim.scenario.plan.written_out import written_out
from sim.scenario.read.source import Document, read_documents
from sim.units import Virtual, format_duration, parse_duration_us

SOON_US = 1  # after the instant, a step without a time occurs


def forked_plan(
    run: Path,
    at_us: Virtual,
    files: Sequence[Path],
    *,
    instead: bool = False,
    lasts: str = "",
    settings: Sequence[str] = (),
    seed: int | None = None,
    programs: Mapping[str, str] | None = None,
) -> Plan:
    """The plan of another future.  Raises InputError with every error.

    files: lists of steps, as in a timeline; one without a time occurs at the instant
    instead: True if they take the place of the scenario's later steps, and of the expectations
        that begin or end with them
    lasts: time from the instant to the end of the run; "": to that of the scenario
    settings, seed: of a scenario; a trace has its own
    programs: "module:function" of the run's programs of a user, by name
    """
    plan, folder = _planned(run, settings, seed)
    plan = bound(plan, programs or {})
    if at_us >= plan.duration_us and not lasts:
        remedy = "give an earlier instant, or --for"
        raise InputError(f"the run ends at {format_duration(plan.duration_us)}", str(run), remedy)
    document = Document(str(run), written_out(plan.document or {}, plan))
    places = {step.name: step.place for step in plan.steps}
    spec = document.value["spec"]
    timeline = list(spec.get("timeline", ()))
    stored = [{**entry, "name": step.name} for entry, step in zip(timeline, plan.steps, strict=True)]
    if instead:
        later = later_steps(plan, at_us)
        stored = [entry for entry in stored if entry["name"] not in later]
        spec["expect"] = [one for one in spec.get("expect", ()) if not _is_about(one, later)]
    for number, entry in enumerate(stored):
        document.settings["spec", "timeline", number] = places[entry["name"]]
    for file in files:
        _add(document, stored, file, at_us)
    spec["timeline"] = stored
    if lasts:
        spec["duration"] = format_duration(at_us + parse_duration_us(lasts))
    result = with_functions(compile_plan(document, folder), programs or {})
    result = replace(result, seed=plan.seed, document=document.value)
    check_options(result.cluster)
    expectations_of(result)
    _refuse_past(result, at_us, {step.name for step in plan.steps})
    return result


def _refuse_past(plan: Plan, at_us: Virtual, known: Collection[str]) -> None:
    """Raise InputError for a new step that may occur before the instant."""
    later = later_steps(plan, at_us)
    for step in plan.steps:
        if step.name not in known and step.name not in later and awaited(step.start.after) not in later:
            problem = f"the step {step.name!r} may occur before {format_duration(at_us)}"
            raise InputError(problem, step.place, "give it a later 'at', or 'after' a step that is later")


def _planned(run: Path, settings: Sequence[str], seed: int | None) -> tuple[Plan, Path]:
    """The plan of a trace or a scenario, and its folder."""
    if run.is_file():
        with run.open("rb") as file:
            is_trace = file.read(len(MARK)) == MARK
        if is_trace:
            if settings or seed is not None:
                raise InputError("a trace has its settings and its seed", str(run), "name the scenario")
            plan, own_seed = plan_of_trace(run)
            return replace(plan, seed=own_seed), run.parent
    file_path = scenario_path(run)
    plan = load(file_path, settings)
    return plan if seed is None else replace(plan, seed=seed), file_path.parent


def _add(document: Document, timeline: list[Any], file: Path, at_us: Virtual) -> None:
    """Add the steps of a file, with their places in it."""
    documents = read_documents(file)
    steps = documents[0].value if len(documents) == 1 else None
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        remedy = "e.g. - {at: 8m, crash: {actor: scheduler-0}}"
        raise InputError("holds no list of steps", str(file), remedy)
    for path in documents[0].places:
        if path:
            below = ("spec", "timeline", len(timeline) + int(path[0]), *path[1:])
            document.settings[below] = documents[0].place(path)
    for step in steps:
        timed = any(key in step for key in ("at", "after", "when"))
        timeline.append(step if timed else {"at": format_duration(at_us + SOON_US), **step})


def _is_about(expectation: Any, steps: Collection[str]) -> bool:
    """True if the window of an expectation begins or ends with one of the steps."""
    return any(awaited(str(expectation.get(key, ""))) in steps for key in ("after", "until"))
