"""One run, fast or plain: runs scenarios with and without fast paths and shows where their traces
part.

python -m tests.bench.fast_plain [FILE ...] [--seed N] [--only PATH | --without PATH] [--minutes M]

Without files: every file of scenarios/.  --only: plain but for one fast path (by its name in
`FastPaths`); --without: all but one; both against a plain run.  Of traces that are not equal the
first records that differ are shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import trio

from sim.app.process.garbage import no_collection
from sim.app.run import Result, run_plan
from sim.kernel import Record, read
from sim.kernel.fast import FAST, NAMES, PLAIN, FastPaths
from sim.scenario.compile import load
from sim.scenario.plan.plan import Plan

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
SHOWN = 3  # records before and after the first that differs


def run_to(plan: Plan, fast: FastPaths, trace_file: Path | None = None) -> Result:
    """Run a plan with these fast paths."""
    return trio.run(lambda: run_plan(plan, trace_file=trace_file, picture=False, fast=fast))


def first_difference(one: Path, other: Path) -> tuple[int, list[tuple[Record | None, Record | None]]] | None:
    """The number of the first record of which two traces differ, with the records around it; None:
    they are equal.
    """
    pairs: list[tuple[Record | None, Record | None]] = []
    rest = zip_longest(read(one), read(other))
    for number, (left, right) in enumerate(rest, 1):
        pairs = [*pairs[-SHOWN:], (left, right)]
        if left != right:
            return number, [*pairs, *islice(rest, SHOWN)]
    return None


def _line(record: Record | None) -> str:
    if record is None:
        return "(end)"
    values = " ".join(f"{key}={value}" for key, value in record.values.items())
    return f"#{record.ident} {record.at_us / 1e6:.6f} <-{record.cause} {record.kind} {values}"[:230]


def compare(plan: Plan, fast: FastPaths = FAST) -> str:
    """What differs between a run with fast paths and one without; "" if nothing does."""
    with TemporaryDirectory() as folder, no_collection():
        files = Path(folder) / "fast.trace", Path(folder) / "plain.trace"
        hashes = [
            run_to(plan, paths, file).trace_sha256 for paths, file in zip((fast, PLAIN), files, strict=True)
        ]
        if hashes[0] == hashes[1]:
            return ""
        found = first_difference(*files)
    if found is None:
        return "the same records, encoded in another way"
    number, pairs = found
    lines = [f"record {number} differs"]
    for left, right in pairs:
        lines += (
            ["  = " + _line(left)] if left == right else ["  fast  " + _line(left), "  plain " + _line(right)]
        )
    return "\n".join(lines)


def chosen_paths(only: str | None, without: str | None) -> FastPaths:
    """The fast paths to compare with none."""
    if only:
        return replace(PLAIN, **dict.fromkeys(only.split(","), True))
    return replace(FAST, **dict.fromkeys(without.split(","), False)) if without else FAST


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and answer how many files differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", help=", ".join(NAMES))
    parser.add_argument("--without")
    parser.add_argument("--minutes", type=float, help="end each run after so many virtual minutes")
    chosen = parser.parse_args(arguments)
    fast, different = chosen_paths(chosen.only, chosen.without), 0
    for file in chosen.files or sorted(SCENARIOS.glob("*.yaml")):
        plan = load(file)
        if chosen.seed is not None:
            plan = replace(plan, seed=chosen.seed)
        if chosen.minutes is not None:
            plan = replace(plan, duration_us=min(plan.duration_us, int(chosen.minutes * 60e6)))
        started = process_time()
        what = compare(plan, fast)
        different += bool(what)
        print(f"{file.stem:30} {'differs' if what else 'equal':8} {process_time() - started:6.1f} s")
        if what:
            print(what, flush=True)
    return different


if __name__ == "__main__":
    raise SystemExit(main())
