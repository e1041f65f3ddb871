"""`orrery run`: a scenario, once or under many seeds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import (
    EXIT_FAILED,
    EXIT_OK,
    OUT,
    Files,
    add_many,
    add_programs,
    add_scenario,
    add_seed,
    check_outputs,
    gathered,
    output_file,
    pool_of,
    report_of,
    stopped_early,
    with_programs,
)
from sim.app.cli.commands.serve import client_configs, pace, port
from sim.app.process.interrupts import ends_as_interrupts
from sim.app.process.printed import tell
from sim.errors import InputError
from sim.files import write_text
from sim.units import SECOND

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands
    from sim.app.inspect.checkpoints import Checkpoints
    from sim.app.run import Outside, Result, Steering
    from sim.report.failure import Failure
    from sim.scenario.plan.plan import Plan


def add(commands: Commands) -> None:
    """Add the command."""
    run = commands.add_parser("run")
    add_scenario(run)
    add_programs(run)
    run.add_argument("--variant", default="", metavar="NAME")
    add_seed(run)
    add_many(run)
    add_outputs(run, "out/<scenario>.html, of many seeds out/<scenario>-seeds.html")
    run.add_argument("--plain", action="store_true")
    run.add_argument("--transport", choices=("channels", "sockets"), default="channels")
    run.add_argument("--metrics", type=output_file, metavar="FILE")
    run.add_argument("--agent-logs", type=Path, metavar="DIR")
    run.add_argument("--force", action="store_true")
    run.add_argument("--live", action="store_true")
    run.add_argument("--pace", type=pace, metavar="1|60|max|0")
    run.add_argument("--port", type=port, metavar="N")
    run.add_argument("--client-config", type=client_configs, metavar="FILE")
    run.add_argument("--checkpoints", metavar="TIME", default="")
    run.add_argument("--hold", metavar="TIME", default="")
    run.set_defaults(call=_run)


def add_outputs(parser: argparse.ArgumentParser, report: str) -> None:
    """Add the arguments for output files.  report: default path of the report"""
    parser.add_argument("--trace", type=output_file, metavar="FILE")
    parser.add_argument("--perfetto", type=output_file, metavar="FILE")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--report",
        type=output_file,
        metavar="FILE",
        help=f"write the HTML report here (default: {report}; with --json only if given)",
    )
    parser.add_argument("--no-report", action="store_true")
    parser.add_argument("--junit", type=output_file, metavar="FILE")
    parser.add_argument("--quiet", "-q", action="store_true")


def check_kept(file: Path | None, force: bool) -> None:
    """Refuse a file of metrics that exists.  Raises InputError."""
    if file is not None and file.is_file() and not force:
        raise InputError("exists already and is kept", str(file), "choose another name, or add --force")


def _run(arguments: argparse.Namespace) -> int:
    from sim.app.checked import checked_plan
    from sim.app.notes import notes_of

    plan = checked_plan(arguments.scenario, arguments.set, arguments.variant)
    plan = with_programs(arguments, plan)
    arguments.set = [*plan.settings]  # with those of the variant
    for note in notes_of(plan):
        tell(note)
    outputs = (
        arguments.trace,
        arguments.perfetto,
        arguments.metrics,
        arguments.report,
        arguments.junit,
        arguments.resume,
    )
    check_outputs(*outputs, inputs=(arguments.scenario,))
    check_kept(arguments.metrics, arguments.force)
    if arguments.checkpoints:
        return _run_with_checkpoints(arguments, plan)
    if arguments.hold:
        raise InputError("is how long checkpoints are held", "--hold", "add --checkpoints 1m")
    if arguments.seeds is not None:
        if arguments.agent_logs is not None:
            raise InputError("applies to a single run only", "--agent-logs", "leave out --seeds")
        if arguments.transport != "channels":
            raise InputError("applies to a single run only", "--transport", "leave out --seeds")
        return _run_many(arguments, plan)
    for option in ("jobs", "dask", "resume"):
        if getattr(arguments, option) is not None:
            raise InputError("applies to many seeds only", f"--{option}", "add --seeds N")
    if not arguments.live:
        for option in ("pace", "port", "client_config"):
            if getattr(arguments, option) is not None:
                raise InputError("is of the page of a run", f"--{option.replace('_', '-')}", "add --live")
    chosen = plan if arguments.seed is None else replace(plan, seed=arguments.seed)
    return run_once(
        arguments,
        chosen,
        fast=not arguments.plain,
        replaces_log=arguments.force,
        metrics=arguments.metrics,
        agent_logs=arguments.agent_logs,
        page=_page(arguments) if arguments.live else None,
        sockets=arguments.transport == "sockets",
    )


def _run_with_checkpoints(arguments: argparse.Namespace, plan: Plan) -> int:
    """Run a plan, and hold its checkpoints for `orrery fork` until an interrupt."""
    from sim.app.audit.outputs import refuse_many
    from sim.app.inspect.checkpoints import Checkpoints, door_of, refuse_open
    from sim.app.inspect.moment import instant
    from sim.app.options import check_options
    from sim.app.study.outcome import program_digest

    for option in ("seeds", "jobs", "dask", "resume", "agent_logs", "live", "pace", "port", "client_config"):
        if getattr(arguments, option):
            name = f"--{option.replace('_', '-')}"
            raise InputError("is not for a run with checkpoints", name, "leave one of both out")
    if arguments.transport != "channels":
        raise InputError("is not for a run with checkpoints", "--transport", "leave one of both out")
    refuse_many(check_options(plan.cluster).api_server.audit)
    held_s = instant(arguments.hold, "--hold") / SECOND if arguments.hold else float("inf")
    seeded = plan if arguments.seed is None else replace(plan, seed=arguments.seed)
    trace = arguments.trace = arguments.trace or OUT / f"{plan.name}.trace"
    check_outputs(trace)
    refuse_open(door_of(trace))
    every_us = instant(arguments.checkpoints, "--checkpoints")
    with closing(Checkpoints(seeded, every_us, program_digest())) as checkpoints:
        status = run_once(
            arguments,
            seeded,
            fast=not arguments.plain,
            metrics=arguments.metrics,
            checkpoints=checkpoints,
        )
        tell(f"holds {checkpoints}, for orrery fork {trace}; Ctrl-C ends them")
        with suppress(KeyboardInterrupt), ends_as_interrupts():
            checkpoints.hold(door_of(trace), held_s)
    return status


def _page(arguments: argparse.Namespace) -> Steering:
    """What serves the run that the arguments describe."""
    from sim.app.serving.configs.clients import check_client_configs
    from sim.app.serving.journal import Session
    from sim.app.serving.live import live

    configs = arguments.client_config or ()
    check_outputs(*(config.path for config in configs), inputs=(arguments.scenario,), private=True)
    check_client_configs(configs)
    session = Session(str(arguments.scenario.absolute()), tuple(arguments.set), seed=arguments.seed)
    return partial(live, session, arguments.pace or 0.0, arguments.port or 0, configs)


def run_once(
    arguments: argparse.Namespace,
    plan: Plan,
    outside: Outside | None = None,
    fast: bool = True,
    replaces_log: bool = False,
    metrics: Path | None = None,
    agent_logs: Path | None = None,
    page: Steering | None = None,
    sockets: bool = False,
    checkpoints: Checkpoints | None = None,
    continued: Callable[[Path | None], Result | None] = lambda _: None,
) -> int:
    """Run a plan as `run_plan` does, write the requested files, and print the result; returns the
    exit status.

    continued: the result if another process continues it, with a file for its trace
    """
    from sim.app.inspect.run_terminal import print_result, run_shown
    from sim.app.inspect.traces import records, with_causes, write_perfetto
    from sim.app.notes import notes_of
    from sim.app.process.garbage import no_collection
    from sim.report.story import Book

    live = not (arguments.json or arguments.quiet)
    report = report_of(arguments, plan.name)
    files = Files()
    explained = bool(plan.expectations) and (arguments.junit is not None or not arguments.json)
    explained = explained or (outside is not None and bool(outside.checksums))
    stored = _trace_file(arguments.trace, bool(report or arguments.perfetto or explained or page))
    failed: list[Failure] = []
    difference: list[str] = []
    with ends_as_interrupts(by_trio=True), no_collection(), stored as trace:
        result = continued(trace) or run_shown(
            plan,
            trace_file=trace,
            live=live,
            outside=outside,
            fast=fast,
            replaces_log=replaces_log,
            metered=metrics is not None,
            agent_logs=agent_logs,
            page=page,
            sockets=sockets,
            checkpoints=checkpoints,
        )
        files.write(metrics, lambda file: write_text(file, result.metrics))
        if trace is not None:
            files.write(arguments.perfetto, partial(write_perfetto, trace))
            if outside is not None and result.as_served is False:
                from sim.app.serving.difference import first_difference

                difference = first_difference(result.differs_at, Book(records(trace)), outside.operations)
            if report is not None or not all(one.ok for one in result.verdicts):
                from sim.app.inspect.run_report import write_report
                from sim.report.failure import failures

                book = Book(records(trace))
                failed = failures(result.verdicts, book)
                report = files.write(report, lambda file: write_report(file, plan, result, book))
    if arguments.junit is not None:
        from sim.app.study.study_report import junit_of_result

        files.write(arguments.junit, lambda file: write_text(file, junit_of_result(plan, result, failed)))
    if arguments.json:
        more = {"first_difference": difference} if difference else {}
        print(json.dumps({**with_causes(result.to_json(), failed), "notes": notes_of(plan), **more}))
    else:
        print_result(plan, result, report, arguments.trace, failed, difference)
    return files.report_failures(EXIT_OK if result.ok else EXIT_FAILED)


@contextmanager
def _trace_file(asked: Path | None, needed: bool) -> Iterator[Path | None]:
    """The path of the trace: the requested one, or a temporary one while it is needed."""
    if asked is not None or not needed:
        yield asked
        return
    with TemporaryDirectory() as folder:
        yield Path(folder) / "run.trace"


def _run_many(arguments: argparse.Namespace, plan: Plan) -> int:
    from sim.app.audit.outputs import refuse_many
    from sim.app.notes import notes_of
    from sim.app.options import check_options
    from sim.app.study.results import Results
    from sim.app.study.study_report import junit_of_study, write_study
    from sim.app.study.summary import jobs_of, study_of
    from sim.app.study.terminal import followed, print_study, progress

    for option in ("trace", "perfetto", "metrics", "plain", "live"):
        if getattr(arguments, option):
            raise InputError("applies to one run only", f"--{option}", "give --seed N without --seeds")
    refuse_many(check_options(plan.cluster).api_server.audit)
    study_of(plan, [], 0)  # reports an invalid expectation before anything runs
    first = plan.seed if arguments.seed is None else arguments.seed
    report = report_of(arguments, f"{plan.name}-seeds")
    results, pool = Results(arguments.resume), pool_of(arguments)
    jobs = list(jobs_of(plan, first, arguments.seeds))
    tell(results.summary(jobs))
    started = perf_counter()
    with progress(plan.name, arguments.seeds, not (arguments.json or arguments.quiet)) as display:
        outcomes, stopped, why = gathered(followed(results.perform(jobs, pool), display, results.kept(jobs)))
    study = study_of(plan, outcomes, arguments.seeds)
    if not outcomes:
        report = None
    files = Files()
    report = files.write(report, lambda file: write_study(file, plan, study, arguments.set))
    files.write(arguments.junit, lambda file: write_text(file, junit_of_study(plan, study, arguments.set)))
    if arguments.json:
        print(json.dumps({**study.to_json(), "notes": notes_of(plan)}))
    else:
        print_study(plan, study, perf_counter() - started, arguments.set, report)
    if stopped:
        tell(why)
        tell(stopped_early(arguments.resume))
        return files.report_failures(stopped)
    return files.report_failures(EXIT_OK if study.ok else EXIT_FAILED)
