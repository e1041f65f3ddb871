"""The values of a study, one row a value a seed: for tables of Python, CSV and JSON.

Turns the studies of a sweep's points into flat rows.  A row holds the seed, the value of each varied
key, and one value of one expectation: `part` numbers the values of an expectation within a run.

Holds: every run has at least one row for each expectation.  The value of a row is None if the
expectation measures nothing, or if what it measures did not occur in that run.  `ok` is None for a run
that ended with an exception.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from sim.app.study.outcome import Measured
from sim.app.study.summary import TIMED, Study
from sim.app.study.sweep import Sweep
from sim.check.build import MEASURED
from sim.dataclass import dataclass
from sim.files import write_text
from sim.patterns import pattern

FIRST = ("seed",)
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
NUMBER = pattern(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
LAST = ("expectation", "kind", "ok", "value", "unit", "part")


def columns(sweep: Sweep) -> list[str]:
    """The columns of the rows of a sweep, in order."""
    varied = [axis.key for axis in sweep.axes]
    return list(dict.fromkeys([*FIRST, *varied, *LAST]))


def value_rows(sweep: Sweep) -> list[dict[str, Any]]:
    """The rows of all points, in the order of the points, the seeds and the expectations."""
    rows = []
    for point, study in zip(sweep.points, sweep.studies, strict=True):
        varied = dict(zip((axis.key for axis in sweep.axes), point.values, strict=True))
        shapes = [_Shape.of(study, index) for index in range(len(study.findings))]
        for run in study.outcomes:
            for index, shape in enumerate(shapes):
                found = None if run.error else run.expectations[index]
                head = {**varied, "seed": run.seed, "expectation": shape.name, "kind": shape.kind}
                head["ok"] = None if found is None else found.ok
                for part, value in enumerate(shape.values(found), 1):
                    rows.append({**head, "value": value, "unit": shape.unit, "part": part})
    order = columns(sweep)
    return [{key: row[key] for key in order} for row in rows]


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the runs of a study have in common about an expectation.

    kind: its key in the file, "" if no run has ended
    parts: the largest number of values in a run
    """

    name: str
    kind: str
    parts: int

    @classmethod
    def of(cls, study: Study, index: int) -> _Shape:
        found = [run.expectations[index] for run in study.outcomes if not run.error]
        kind = found[0].kind if found else ""
        return cls(study.findings[index].name, kind, max((len(one.values) for one in found), default=0))

    @property
    def unit(self) -> str:
        """The unit of the values."""
        return "s" if self.kind in TIMED else ""

    def values(self, found: Measured | None) -> Sequence[float | None]:
        """The values of a run; None for each that did not occur, and one None if nothing is measured."""
        if found is None or self.kind not in (*MEASURED, "order"):
            return (None,)
        missing = self.parts - len(found.values) if self.kind == "order" else found.missing
        return (*found.values, *[None] * missing) or (None,)


def write_values(file: Path, sweep: Sweep) -> None:
    """Write the rows as CSV; what is None is empty."""
    write_table(file, columns(sweep), value_rows(sweep))


def write_table(file: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as CSV, with the columns as header; other keys of the rows are left out."""
    lines = StringIO(newline="")
    writer = csv.DictWriter(lines, columns, extrasaction="ignore")
    writer.writerow({column: _cell(column) for column in columns})
    writer.writerows({key: _cell(cell) for key, cell in row.items()} for row in rows)
    write_text(file, lines.getvalue())


def _cell(value: Any) -> Any:
    """A value as a table program reads it: booleans in lower case, and no text as a formula.

    A text that begins as a formula does gets an apostrophe before it (OWASP, "CSV Injection"):
    names come from files of others, and a formula can send the other cells away.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and value.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return value
