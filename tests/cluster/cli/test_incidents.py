"""The incidents of `scenarios/incidents` show their failure, and each of their variants avoids it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.generate.museum import museum_page
from sim.app.checked import checked_plan
from sim.app.run import run_plan
from tests.bench.scenarios import SCENARIOS

FILES = sorted((SCENARIOS / "incidents").glob("*.yaml"))
CASES = [(path, variant) for path in FILES for variant in ("", *checked_plan(path).variants)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "variant"), CASES, ids=lambda part: getattr(part, "stem", part) or "as-it-was"
)
async def test_incident_shows_its_failure_and_a_variant_avoids_it(path: Path, variant: str) -> None:
    result = await run_plan(checked_plan(path, (), variant), picture=False)
    wrong = {one.name: f"{one.measured}, wanted {one.wanted}" for one in result.verdicts if not one.ok}
    assert wrong == {}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_incident_names_its_source_what_is_simulated_and_what_is_left_out(path: Path) -> None:
    head = path.read_text().partition("apiVersion:")[0]
    assert re.match(r"# https://\S+", head)
    assert [word for word in ("Simulated: ", "Left out: ", "Figures: ") if word not in head] == []
    plan = checked_plan(path)
    assert plan.name == path.stem and plan.variants


@pytest.mark.parametrize(("path", "variant"), [case for case in CASES if case[1]])
def test_variant_of_an_incident_lets_an_expectation_fail(path: Path, variant: str) -> None:
    assert any(one.expectation.fails for one in checked_plan(path, (), variant).expectations)


def test_each_incident_is_on_the_page_of_scenarios_and_of_incidents() -> None:
    listed, museum = (SCENARIOS / "README.md").read_text(), museum_page()
    assert [path.stem for path in FILES if f"[{path.stem}](incidents/{path.name})" not in listed] == []
    assert [path.stem for path in FILES if f"## {path.stem}\n" not in museum] == []


def test_incident_has_a_name_of_its_own() -> None:
    assert [path.stem for path in FILES if (SCENARIOS / path.name).exists()] == []
