"""`study`: many runs of a scenario from Python, as `orrery run --seeds` and `orrery sweep` make them.

    from orrery import study

    deaths = study("single-node-death", seeds=40, vary={
        "cluster.controllerManager.flags.node-monitor-grace-period": ["20s", "40s"],
    })
    deaths.frame()
    deaths.plot("found dead after 30 to 46 s")

Turns its arguments into the points of a sweep, runs them in a pool, and holds the result as a value
for notebooks.

Holds: the numbers are those of the command line for the same scenario, settings and seeds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.app.lab.frames import frame
from sim.app.process.own_programs import Program, references
from sim.app.reference.shipped import scenario_path
from sim.app.study.pool import cores, processes
from sim.app.study.pool import dask as dask_pool
from sim.app.study.results import Results
from sim.app.study.study_report import study_body, write_study
from sim.app.study.summary import Quantity, Study
from sim.app.study.sweep import Axis, Sweep, jobs_of_points, points_of, sweep_of
from sim.app.study.sweep_report import quantity_chart, sweep_body, write_sweep
from sim.app.study.terminal import followed, progress
from sim.app.study.values import columns, value_rows, write_values
from sim.dataclass import dataclass
from sim.errors import InputError, suggestion_or_all
from sim.files import check_output, write_text
from sim.report.charts.chart import Chart, in_notebook, stacked
from sim.report.charts.distribution import histogram_chart
from sim.report.page import fragment

if TYPE_CHECKING:
    import altair
    import polars

SEEDS, PLOT_WIDTH = 200, 620
SEEDS_MAX = 10_000_000
_TYPES: Mapping[str, type] = {
    "seed": int, "expectation": str, "kind": str, "ok": bool, "value": float, "unit": str, "part": int,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StudyResult:
    """The result of `study`: the runs of every combination of the varied settings.

    sweep: the combinations and their studies; one without varied settings has one
    varied: the values of each varied key, as given
    """

    sweep: Sweep
    varied: Mapping[str, tuple[Any, ...]]

    @property
    def ok(self) -> bool:
        """True if all runs ended and all expectations hold at every setting."""
        return all(study.ok for study in self.sweep.studies)

    @property
    def studies(self) -> tuple[Study, ...]:
        """The summary of each combination, in order."""
        return self.sweep.studies

    def frame(self) -> polars.DataFrame:
        """A polars frame with one row for each seed, setting and value of an expectation.

        Columns: seed, the varied keys, expectation, kind, ok, value, unit, part.  `value` is null
        where nothing is measured or nothing occurred; `ok` is null if the run ended with an exception.
        """
        types: dict[str, type] = dict.fromkeys(columns(self.sweep), str)
        types |= _TYPES
        rows = value_rows(self.sweep)
        for axis in self.sweep.axes:
            given = dict(zip(axis.values, self.varied[axis.key], strict=True))
            types[axis.key] = _type_of(self.varied[axis.key])
            if types[axis.key] is not str:
                for row in rows:
                    row[axis.key] = given[row[axis.key]]
        return frame(rows, {key: types[key] for key in columns(self.sweep)})

    def plot(self, *expectations: str) -> altair.VConcatChart:
        """An Altair chart of what is measured: its distribution or, of varied settings, the values
        over the first of them with the median and the middle 80 %.

        expectations: their names; default: all that measure something
        Raises InputError for an expectation that measures nothing.
        """
        found = self.sweep.quantities
        known = {
            finding.name: [one.name for one in finding.quantities if one.name in found]
            for study in self.sweep.studies[:1]
            for finding in study.findings
        }
        for name in expectations:
            if name not in known:
                raise InputError("there is no such expectation", name, suggestion_or_all(name, known))
            if not known[name]:
                raise InputError("it measures nothing", name, "frame() shows under which seeds it holds")
        names = [one for name in expectations or known for one in known[name]]
        if not names:
            raise InputError("no expectation has a value", "", "frame() shows under which seeds each holds")
        if not self.sweep.axes:
            measured = [one for name in names if (one := found[name][0]) is not None]
            return stacked([_histogram(one) for one in measured], "distributions").altair(PLOT_WIDTH)
        charts = [quantity_chart(self.sweep, name, found[name], titled=True) for name in names]
        return stacked(charts, "over the settings").altair(PLOT_WIDTH)

    def save(self, file: str | Path) -> None:
        """Write the values as .csv, .json or .parquet, or everything as a page, .html.

        The lines of a .csv are those of `orrery sweep --values`.
        """
        path = Path(file)
        check_output(path)
        if path.suffix == ".html" and self.sweep.axes:
            write_sweep(path, self.sweep)
        elif path.suffix == ".html":
            point = self.sweep.points[0]
            write_study(path, point.plan, self.sweep.studies[0], point.settings)
        elif path.suffix == ".csv":
            write_values(path, self.sweep)
        elif path.suffix == ".json":
            write_text(path, json.dumps(value_rows(self.sweep)) + "\n")
        elif path.suffix == ".parquet":
            self.frame().write_parquet(path)
        else:
            raise InputError("no format of this name", str(path), "end it in .csv, .json, .parquet or .html")

    def __repr__(self) -> str:
        done, wanted = self.sweep.done
        held = sum(study.held for study in self.sweep.studies)
        settings = f" at {len(self.sweep.points)} settings" if self.sweep.axes else ""
        name = self.sweep.points[0].plan.name
        return f"<study of {name}: {done} of {wanted} runs{settings}; everything holds in {held}>"

    def _repr_html_(self) -> str:
        if self.sweep.axes:
            return fragment(sweep_body(self.sweep, in_notebook))
        point = self.sweep.points[0]
        return fragment(study_body(point.plan, self.sweep.studies[0], point.settings, in_notebook))


def study(
    scenario: str | Path | Mapping[str, Any],
    seeds: int = SEEDS,
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    settings: Mapping[str, Any] | None = None,
    programs: Mapping[str, Program | str] | None = None,
    jobs: int | None = None,
    dask: Any = None,
    first_seed: int | None = None,
    resume: str | Path | None = None,
    quiet: bool = False,
) -> StudyResult:
    """Run a scenario under many seeds, and under every combination of varied settings.

    scenario: a file, the name of one that comes along, or the document as a mapping
    seeds: number of runs for each combination
    vary: the values of each key, which is a path into the scenario as in `--set`
    settings: values that replace those of the scenario, by key
    programs: controllers of yours that run in each run as by `Cluster.add_program`, by name:
        functions at the top of a module, or their names as "module:function"
    jobs: number of worker processes; default: one a core
    dask: the address of a Dask scheduler or a client, instead of processes
    first_seed: the first seed; default: the scenario's
    resume: a file that keeps finished runs; those that it has are not run again
    quiet: True shows no progress on a terminal
    Raises InputError; Ctrl-C ends all processes and raises KeyboardInterrupt.
    """
    if isinstance(seeds, bool) or not 1 <= seeds <= SEEDS_MAX:
        raise InputError(f"{seeds} is no number of seeds from 1 to {SEEDS_MAX}", "seeds")
    if dask is not None and jobs is not None:
        raise InputError("is not for a Dask cluster, which has its workers", "jobs")
    if jobs is not None and jobs < 1:
        raise InputError("at least one process is needed", "jobs")
    varied = {key: tuple(values) for key, values in (vary or {}).items()}
    axes = [_axis(key, values) for key, values in varied.items()]
    given = scenario if isinstance(scenario, Mapping) else scenario_path(Path(scenario))
    texts = [f"{key}={_text(value)}" for key, value in (settings or {}).items()]
    points = points_of(given, texts, axes, references(programs or {}))
    work = list(jobs_of_points(points, first_seed, seeds))
    results = Results(None if resume is None else Path(resume))
    pool = processes(jobs or cores()) if dask is None else dask_pool(dask)
    with progress(points[0].plan.name, len(work), not quiet) as display:
        outcomes = list(followed(results.perform(work, pool), display, results.kept(work)))
    return StudyResult(sweep_of(axes, points, outcomes, work, seeds), varied)


def _histogram(one: Quantity) -> Chart:
    summary = one.summary
    assert summary is not None, "a quantity with a place has values"
    return histogram_chart(one.name, one.values, summary, one.wanted, one.unit, titled=True)


def _axis(key: str, values: tuple[Any, ...]) -> Axis:
    texts = tuple(map(_text, values))
    if not texts:
        raise InputError("has no values", f"vary {key}")
    if len(set(texts)) < len(texts):
        raise InputError("has a value twice", f"vary {key}")
    return Axis(key, texts)


def _text(value: Any) -> str:
    """A value as `--set` takes it: a text unchanged, everything else as JSON, which is YAML."""
    return value if isinstance(value, str) else json.dumps(value)


def _type_of(values: Sequence[Any]) -> type:
    """The type of a column: that of all values, or text."""
    types = {type(value) for value in values}
    if types == {int, float}:
        return float
    return types.pop() if len(types) == 1 and types <= {int, float, bool} else str
