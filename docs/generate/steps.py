"""The pages of faults and actions, of conditions, and of the options of the daemons."""

from __future__ import annotations

from docs.generate.markdown import block, code, page, table
from sim.app.reference.conditions import CONDITIONS, SYNTAX
from sim.app.reference.invariants import invariant_rows
from sim.app.reference.options import alone_rows, gate_rows, option_rows
from sim.app.reference.steps import StepPage, step_pages
from sim.ident import NAMES


def steps_page() -> str:
    """Every kind of step: the faults, then what a user does."""
    pages = step_pages().values()
    overview = table(
        ("step", "kind", "effect"),
        [(f"[`{each.name}`](#{each.name.lower()})", _kind(each), each.summary) for each in pages],
    )
    return page(
        "Faults and actions",
        "A step of a scenario's `timeline` has one of these actions. `orrery faults NAME` prints the same on the "
        "terminal; a `Lab` and `Cluster.do` have a method of the same name for each. When a step happens (`at`, "
        "`when`, `after`, `every`, `rate`, `for`) is described under [scenario files](scenario.md).",
        overview,
        *map(_step, pages),
    )


def _kind(step: StepPage) -> str:
    return "fault" if step.fault else "action"


def _step(step: StepPage) -> str:
    rows = [
        (code(each.name), each.default if each.default == "required" else code(each.default), each.meaning)
        for each in step.parameters
    ]
    parts = (
        f"## {step.name} {{ #{step.name.lower()} }}",
        step.documentation,
        table(("parameter", "default", "meaning"), rows) if rows else "",
        block("yaml", step.example),
    )
    return "\n\n".join(part for part in parts if part)


def conditions_page() -> str:
    """The language of conditions and events."""
    parts = []
    for part in dict.fromkeys(row.part for row in CONDITIONS):
        rows = [(code(r.form), r.meaning, code(r.example)) for r in CONDITIONS if r.part == part]
        parts += [f"## {part[0].upper()}{part[1:]}", table(("form", "meaning", "example"), rows)]
    parts += ["## Invariants", "An expectation `{name: …, invariant: NAME}` may name one of these."]
    for row in invariant_rows():
        facts = [*([code(row.parameters)] if row.parameters else []), f"from {row.after} on"]
        parts += [
            f"### {row.name}",
            f"{row.documentation} By default {', '.join(facts)}.",
            block("yaml", row.example),
        ]
    return page(
        "Conditions and events",
        "Steps (`when`), expectations and `Lab.run_until` use one language. `orrery conditions` prints it on the "
        "terminal.",
        block("text", SYNTAX),
        *parts,
    )


def options_page(daemon: str) -> str:
    """The options of one daemon, and those that are refused."""
    rows = option_rows(daemon, NAMES["kubernetes"])
    effective = [(code(row.name), code(row.default), row.effect) for row in rows if row.effect]
    refused = [(code(row.name), row.reason) for row in rows if row.reason]
    taken = [(code(row.name), row.taken) for row in rows if row.taken]
    alone = [
        (code(row.name), code(row.default), row.effect or row.taken)
        for row in alone_rows(daemon, NAMES["kubernetes"])
    ]
    idle = (
        "## Options without an effect",
        "These are taken and checked, as upstream does, and change nothing here:",
        table(("option", "reason"), taken),
    )
    gates = [
        (
            code(row.name),
            row.stage,
            f"{str(row.default).lower()}{', locked' if row.locked else ''}",
            row.effect,
        )
        for row in gate_rows(daemon)
    ]
    return page(
        daemon,
        "An option is given under `flags` in a scenario, or as an argument of `Cluster`. "
        f"`orrery options {daemon}` prints the same on the terminal.",
        table(("option", "default", "effect"), effective),
        *(idle if taken else ()),
        "## Refused options",
        "These options of the specification would have no effect here, so they are refused:",
        table(("option", "reason"), refused),
        "## Options of a process alone",
        "These are taken besides by the command of this name, which runs it alone:",
        table(("option", "default", "effect"), alone),
        "## Feature gates",
        "Each daemon takes the gates of all. In this one these have an effect:",
        table(("gate", "stage", "default"), [row[:3] for row in gates if row[3]]),
        "These have none:",
        table(("gate", "stage", "default"), [row[:3] for row in gates if not row[3]]),
    )
