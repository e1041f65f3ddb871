"""A scenario file checked as far as is possible without a run: every error of the file at once.

Turns a file and its settings into a plan, or into one error that holds all of them: of the schema,
the nodes, the objects, the steps, the flags and the expectations.

Holds: an error that may follow from another one of the file is left out, so that correcting all
that is shown makes a plan or shows what was hidden behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sim.app.options import check_options
from sim.app.possible import expectations_of
from sim.check import matter_mistakes
from sim.errors import InputError, Problems
from sim.ident import NAMES
from sim.scenario.compile import compile_file, in_order
from sim.scenario.plan.plan import Plan


def checked_plan(path: Path, settings: Sequence[str] = (), variant: str = "") -> Plan:
    """The plan of a scenario file, or of a variant of it.  Raises InputError with every error."""
    compiled = compile_file(path, settings, variant)
    problems = Problems()
    for error in compiled.errors:
        problems.add(error)
    plan = compiled.plan
    with problems.part():
        check_options(plan.cluster)
    with problems.part():
        expectations_of(plan, whole=compiled.whole)
    for doubtful in compiled.doubtful:
        for mistake in matter_mistakes(doubtful.expectation, NAMES[plan.cluster.naming]):
            problems.add(InputError(mistake, doubtful.place))
    return replace(compiled, errors=tuple(in_order(problems.errors, plan.file))).sound()
