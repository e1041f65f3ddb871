"""Hunts with controllers of a user, which run in every candidate and in the runs of stories."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import trio

from orrery import Cluster, InputError, Lab, hunt, load, run_plan
from sim.app.cli.main import main
from sim.app.hunt.reducing import Explanation, explained
from sim.client import Client
from sim.kernel import read
from sim.scenario.writing import scenario_text
from tests.cluster.hunt.test_hunting import hunting

pytestmark = pytest.mark.slow
KEPT = {"name": "pods are kept", "never": {"deleted": "pods"}, "after": "30s"}
MOVER = f"{__name__}:mover"


async def mover(client: Client) -> None:
    """Delete all pods as soon as a node is not Ready."""
    while True:
        for node in (await client.list("nodes")).items or ():
            conditions = {each["type"]: each["status"] for each in node.obj["status"].get("conditions", ())}
            if conditions.get("Ready") == "Unknown":
                for pod in (await client.list("pods", "default")).items or ():
                    await client.delete("pods", "default", pod.obj["metadata"]["name"], grace_s=0)
        await client.ctx.sleep_us(1_000_000)


def _local() -> Any:
    async def program(client: Client) -> None:
        """Do nothing."""

    return program


def hunted() -> dict[str, Any]:
    """A scenario of which only the program breaks the expectation, when a node is lost."""
    whole = hunting()
    whole["spec"]["expect"] = [KEPT]
    return whole


def test_program_of_a_user_takes_part_in_a_hunt_and_in_its_story(tmp_path: Path) -> None:
    run = functools.partial(hunt, hunted(), "20 runs", jobs=1, seed=1, shrink=False)
    result = run(programs={"mover": mover}, failures=1, folder=tmp_path, resume=tmp_path / "kept")
    (story,) = result.stories
    assert story.finding.failed == ("pods are kept",)
    assert f"# Run it with: --program mover={MOVER}" in story.text
    assert "programs" not in story.document and story.file is not None
    quiet = [str(story.file), "-q", "--no-report"]
    assert main(["run", *quiet]) == 0
    assert main(["run", *quiet, "--program", f"mover={MOVER}"]) == 1
    with pytest.raises(InputError, match="is of a hunt of another scenario"):
        run(resume=tmp_path / "kept")


def test_shrinking_runs_with_the_programs() -> None:
    whole: dict[str, Any] = hunted()
    del whole["spec"]["hunt"]
    dark = {"name": "dark", "at": "45s", "fail": {"nodes": {"name": "node-0"}, "how": "power-loss"}}
    whole["spec"]["timeline"] = [{**dark, "for": "60s"}]
    for programs, count in (({}, 0), ({"mover": MOVER}, 1)):
        outcome = explained({**whole, "programs": programs}, rest_us=40_000_000).run()
        assert isinstance(outcome, Explanation) and len(outcome.keys) == count


def test_run_of_a_program_by_name_is_that_of_the_function(tmp_path: Path) -> None:
    file, trace = tmp_path / "s.yaml", tmp_path / "a.trace"
    whole = hunted()
    del whole["spec"]["hunt"]
    file.write_text(scenario_text(whole))
    command = ["run", str(file), "-q", "--no-report", "--trace", str(trace)]
    assert main([*command, "--program", f"mover={MOVER}"]) == 0

    def prepare(cluster: Cluster) -> None:
        cluster.add_program("mover", mover)

    other = tmp_path / "b.trace"
    trio.run(functools.partial(run_plan, load(file), prepare=prepare, picture=False, trace_file=other))
    assert [*read(trace)] == [*read(other)]


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        (_local(), "is a function that other processes cannot find"),
        ("no.such.module:run", "cannot be imported"),
        (f"{__name__}:nothing", "there is no function"),
        ("nothing", "there is no function"),
    ],
)
def test_program_that_other_processes_cannot_find_is_refused(program: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        hunt(hunted(), "1 runs", programs={"mover": program})


def test_hunt_of_a_lab_with_a_program_says_where_it_belongs() -> None:
    with Lab(nodes=1) as lab:
        lab.add_program("mover", mover)
        with pytest.raises(InputError) as caught:
            lab.hunt("1 runs")
    assert "programs" in caught.value.remedy


@pytest.mark.parametrize("text", ["mover", "=a:b", "mover="])
def test_malformed_program_of_the_command_line_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "single-node-death", "--program", text]) == 2
    assert "write it as NAME=module:function" in capsys.readouterr().err
