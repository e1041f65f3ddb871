"""Every scenario holds under any seed, fails where it is broken on purpose, and a seed gives one
run; all notable effects in it lead back to a step.

Here under one seed each, and once more under another hash seed without fast paths.  Under ten
seeds:

    ORRERY_SCENARIO_SEEDS=10 python -m pytest tests/cluster/cli/test_scenarios.py python -m
    tests.bench.scenarios                   every file, ten seeds, twice, under two hash seeds
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import trio

from sim.app.run import Result, run_plan
from sim.kernel import read
from sim.report.story import Book
from sim.scenario.compile import load
from tests.bench.scenarios import LONG, NAMES, SCENARIOS, of_a_process
from tests.cluster.strays import strays

SEEDS = range(int(os.environ.get("ORRERY_SCENARIO_SEEDS", "1")))
# Long ones: `test_fast_plain` compares them, and .ci/run the zone outage under several hash seeds.
QUICK = [name for name in NAMES if name not in LONG]
TWICE = QUICK[::2]  # `python -m tests.bench.fast_plain` runs all of them
_first: dict[str, Result] = {}
_strays: dict[str, list[str]] = {}
BROKEN = re.compile(r"^# Broken by: ((?:--set \S+ )+)-> (.+)$", re.MULTILINE)


def breaks(name: str) -> list[tuple[str, list[str], str]]:
    """What the file's header says breaks it, and which expectation then fails."""
    found = BROKEN.findall((SCENARIOS / f"{name}.yaml").read_text())
    return [(name, settings.replace("--set", "").split(), failing) for settings, failing in found]


async def run(
    name: str, seed: int | None = None, settings: list[str] | None = None, trace: Path | None = None
) -> Result:
    plan = load(SCENARIOS / f"{name}.yaml", settings or [])
    return await run_plan(plan, seed=seed, picture=False, trace_file=trace)


async def first(name: str, folder: Path) -> Result:
    """The run under seed 0, once."""
    if name not in _first:
        trace = folder / "trace"
        _first[name] = await run(name, 0, trace=trace)
        _strays[name] = strays(Book(read(trace)))
    return _first[name]


def failed(result: Result) -> dict[str, str]:
    return {
        verdict.name: f"{verdict.measured}, wanted {verdict.wanted}"
        for verdict in result.verdicts
        if not verdict.ok
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
async def test_scenario_holds_under_any_seed(name: str, tmp_path: Path) -> None:
    results = [await first(name, tmp_path), *[await run(name, seed) for seed in SEEDS[1:]]]
    assert [failed(result) for result in results] == [{}] * len(SEEDS)
    assert len({result.trace_sha256 for result in results}) == len(SEEDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
async def test_all_that_is_of_note_in_a_scenario_leads_back_to_a_step(name: str, tmp_path: Path) -> None:
    await first(name, tmp_path)
    assert _strays[name] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "failing"),
    [case for name in NAMES for case in breaks(name)],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
async def test_a_scenario_fails_where_it_is_broken_on_purpose(
    name: str, settings: list[str], failing: str
) -> None:
    assert failing in failed(await run(name, settings=settings))


@pytest.mark.parametrize("name", NAMES)
def test_scenario_names_what_breaks_it_has_its_files_name_and_is_listed(name: str) -> None:
    assert breaks(name)
    assert f"[{name}]({name}.yaml)" in (SCENARIOS / "README.md").read_text()
    assert load(SCENARIOS / f"{name}.yaml").name == name


@pytest.mark.slow
async def test_seed_gives_one_run_fast_and_plain_under_any_hash_seed(tmp_path: Path) -> None:
    """This process has a hash seed of its own, mostly a random one.

    `python -m tests.bench.fast_plain` and `tests.bench.scenarios` say which of the two it is.
    """
    plain = await trio.to_thread.run_sync(of_a_process, 4_294_967_295, 1, TWICE, "plain")
    ours = {f"{name} 0": (await first(name, tmp_path)).trace_sha256 for name in TWICE}
    assert {run: trace for run, (trace, _) in plain.items()} == ours
