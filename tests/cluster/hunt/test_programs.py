"""Hunts with controllers of a user, which run in every candidate and in the runs of stories."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import trio

from orrery import Cluster, InputError, Lab, hunt, load, run_plan, study
from sim.app.cli.main import main
from sim.app.hunt.ground import ground_of
from sim.app.hunt.reducing import Explanation, explained
from sim.app.hunt.schedules import drawn_document
from sim.app.process.own_programs import with_functions
from sim.app.study.outcome import key_of
from sim.client import Client
from sim.faults.shared.processes import ProcessFault
from sim.kernel import read
from sim.scenario.compile import compile_plan
from sim.scenario.read.source import Document
from sim.scenario.writing import scenario_text
from sim.units import format_micro_time
from tests.cluster.hunt.test_hunting import hunting

pytestmark = pytest.mark.slow
KEPT = {"name": "pods are kept", "never": {"deleted": "pods"}, "after": "30s"}
BEATS = {"name": "it renews", "always": "any leases named beating are led", "after": "20s"}
MOVER, BEATING = f"{__name__}:mover", f"{__name__}:beating"
WITH_BEATING = ["--program", f"beating={BEATING}"]
HEAD = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "own"}}


async def mover(client: Client) -> None:
    """Delete all pods as soon as a node is not Ready."""
    while True:
        for node in (await client.list("nodes")).items or ():
            conditions = {each["type"]: each["status"] for each in node.obj["status"].get("conditions", ())}
            if conditions.get("Ready") == "Unknown":
                for pod in (await client.list("pods", "default")).items or ():
                    await client.delete("pods", "default", pod.obj["metadata"]["name"], grace_s=0)
        await client.ctx.sleep_us(1_000_000)


async def beating(client: Client) -> None:
    """Renew a lease each second."""
    resource = client.scheme.resource("leases")
    meta = {"name": "beating", "namespace": "default"}
    lease = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
    while True:
        spec = {"holderIdentity": "beating", "leaseDurationSeconds": 15}
        spec["renewTime"] = format_micro_time(client.ctx.wall_us())
        if not (await client.patch("leases", "default", "beating", {"spec": spec}, kind="merge")).ok:
            await client.create("leases", "default", {**lease, "spec": spec})
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


def test_program_of_a_user_takes_part_in_a_hunt_and_in_its_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = functools.partial(hunt, hunted(), "20 runs", jobs=1, seed=1, shrink=False)
    result = run(programs={"mover": mover}, failures=1, folder=tmp_path, resume=tmp_path / "kept")
    (story,) = result.stories
    assert story.finding.failed == ("pods are kept",)
    assert f"# Run it with: --program mover={MOVER}" in story.text
    assert "programs" not in story.document and story.file is not None
    assert story.document["spec"]["cluster"]["ownPrograms"] == ["mover"]
    quiet = [str(story.file), "-q", "--no-report"]
    assert main(["run", *quiet]) == 2
    assert "add --program mover=module:function" in capsys.readouterr().err
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


def test_hunt_of_a_lab_has_its_programs_and_hits_them(tmp_path: Path) -> None:
    with Lab(nodes=1) as lab:
        lab.add_program("beating", beating)
        lab.run("30s")
        crash = {"crash": {"actor": "beating", "restartAfter": "1s..2m"}}
        found = lab.hunt("20 runs", expect=[BEATS], palette=[crash], failures=1, jobs=1, folder=tmp_path)
    (story,) = found.stories
    assert story.finding.failed == ("it renews",)
    assert {step["crash"]["actor"] for step in story.document["spec"]["timeline"]} == {"beating"}
    assert main(["run", str(story.file), "-q", "--no-report", "--program", f"beating={BEATING}"]) == 1


def test_palette_of_words_draws_programs_of_the_user_too() -> None:
    whole = hunted()
    whole["spec"]["hunt"] = {"palette": ["crash"]}
    for names, count in (({}, 0), ({"mover": MOVER}, 1)):
        (entry,) = ground_of(whole, (), names).hunt.palette
        assert entry.values["crash.actor"].count("mover") == count


@pytest.fixture
def run_with_a_crash(tmp_path: Path) -> Path:
    """The trace of a run in which a program renews its lease until it is killed for a minute."""
    spec = {
        "duration": "4m",
        "cluster": {"ownPrograms": ["beating"]},
        "timeline": [{"at": "1m", "name": "kill", "crash": {"actor": "beating", "restartAfter": "1m"}}],
        "expect": [{**BEATS, "until": "kill"}],
    }
    file, trace = tmp_path / "s.yaml", tmp_path / "run.trace"
    file.write_text(scenario_text({**HEAD, "spec": spec}))
    assert main(["run", str(file), "-q", "--no-report", "--trace", str(trace), *WITH_BEATING]) == 0
    return trace


def test_fork_and_back_repeat_a_run_with_its_programs(
    run_with_a_crash: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = tmp_path / "later.yaml"
    later.write_text("- {at: 3m, stall: {actor: beating}, for: 30s}\n")
    back = [str(run_with_a_crash), "90s", "--", "get", "leases", "-n", "default"]
    fork = [str(run_with_a_crash), "2m30s", "--with", str(later), "-q", "--no-report"]
    for command, words in (("fork", fork), ("back", back)):
        assert main([command, *words]) == 2
        assert "the scenario has the program 'beating'" in capsys.readouterr().err
        assert main([command, *WITH_BEATING, *words]) == 0
    assert "beating" in capsys.readouterr().out


def test_sweep_runs_a_program_at_each_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.yaml"
    spec = {"duration": "1m", "cluster": {"ownPrograms": ["beating"]}, "expect": [BEATS]}
    file.write_text(scenario_text({**HEAD, "spec": spec}))
    command = ["sweep", str(file), "--vary", "cluster.latency=1ms,2ms", "--seeds", "1", "-j", "1", "-q"]
    assert main([*command, "--no-report"]) == 2
    assert "the scenario has the program 'beating'" in capsys.readouterr().err
    assert main([*command, "--no-report", *WITH_BEATING]) == 0
    many = study({**HEAD, "spec": spec}, seeds=1, programs={"beating": beating}, jobs=1, quiet=True)
    assert many.sweep.studies[0].held == 1


@pytest.mark.parametrize("name", ["scheduler-0", "node-0", "storage", "admin", "extra-1", "nodes"])
def test_program_with_the_name_of_another_process_is_refused(name: str) -> None:
    cluster = {"nodes": [{"count": 1}], "schedulers": [{"name": "extra", "replicas": 2}]}
    cluster["schedulers"][0]["flags"] = {"leader-elect": True}
    whole = {**HEAD, "spec": {"duration": "1m", "cluster": {**cluster, "ownPrograms": ["mine", name]}}}
    with pytest.raises(InputError, match="is the name of another process") as caught:
        compile_plan(Document("f.yaml", whole), Path())
    assert caught.value.remedy == "give the program another name"


def test_two_programs_of_one_name_are_refused() -> None:
    whole = {**HEAD, "spec": {"duration": "1m", "cluster": {"ownPrograms": ["mine", "mine"]}}}
    with pytest.raises(InputError, match="two programs are named mine"):
        compile_plan(Document("f.yaml", whole), Path())


def test_a_group_of_replicas_has_no_program_of_the_user() -> None:
    steps = [{"at": "1s", "crash": {"actor": "scheduler"}}]
    cluster = {"scheduler": {"replicas": 2}, "ownPrograms": ["scheduler-helper"]}
    whole = {**HEAD, "spec": {"duration": "1m", "cluster": cluster, "timeline": steps}}
    (step,) = compile_plan(Document("f.yaml", whole), Path()).steps
    action = step.choices[0].action
    assert isinstance(action, ProcessFault) and action.actors == ("scheduler-0", "scheduler-1")


MODULE = """
async def run(client):
    await client.ctx.sleep_us({})
"""


def test_results_of_an_earlier_version_of_a_program_are_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    scenario = {**HEAD, "spec": {"duration": "1m", "cluster": {"ownPrograms": ["mine"]}}}
    plan = compile_plan(Document("f.yaml", scenario), Path())
    keys = []
    for name in ("mine_once", "mine_twice"):
        for number in (1, 2, 1):
            (tmp_path / f"{name}.py").write_text(MODULE.format(number))
            keys.append(key_of(with_functions(plan, {"mine": f"{name}:run"})))
        (tmp_path / f"{name}.py").unlink()
    first, other, again, *of_the_second = keys
    assert (first == again, first == other, first in of_the_second) == (True, False, False)
    assert key_of(plan) not in keys


def test_search_continues_with_a_changed_program_from_what_it_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "mine_resumed.py"
    run = functools.partial(hunt, hunted(), jobs=1, seed=1, shrink=False, resume=tmp_path / "kept")
    counts = []
    for number in (1, 1, 2):
        module.write_text(MODULE.format(number))
        counts.append(run("2 runs", programs={"mine": "mine_resumed:run"}).tally.runs)
    assert counts == [2, 4, 2]


def test_steps_of_a_test_are_drawn_on_its_programs() -> None:
    cluster = {"ownPrograms": ["mine"]}
    drawn = drawn_document(1, {"palette": [{"stall": {"actor": "mine"}, "for": "1m"}]}, cluster)
    assert {step["stall"]["actor"] for step in drawn["spec"]["timeline"]} == {"mine"}


def test_served_cluster_with_a_program_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(scenario_text({**HEAD, "spec": {"duration": "1m", "cluster": {"ownPrograms": ["mine"]}}}))
    assert main(["serve", str(file)]) == 2
    assert "take ownPrograms out, and run it as a client of the server" in capsys.readouterr().err


async def test_step_that_hits_a_program_that_was_not_added_ends_the_run_with_its_name() -> None:
    steps = [{"at": "1s", "crash": {"actor": "mine"}}]
    whole = {**HEAD, "spec": {"duration": "1m", "cluster": {"ownPrograms": ["mine"]}, "timeline": steps}}
    plan = compile_plan(Document("f.yaml", whole), Path())
    missing = pytest.RaisesExc(InputError, match="there is no process 'mine'")
    with pytest.RaisesGroup(missing, flatten_subgroups=True):
        async with Cluster(plan.cluster) as cluster:
            cluster.do.schedule(plan.steps)
            await cluster.run_for("10s")


async def test_program_that_was_added_is_crashed_by_its_name() -> None:
    async with Cluster(nodes=0) as cluster:
        process = cluster.add_program("beating", beating)
        await cluster.run_for("1s")
        cluster.do.crash(actor="beating")
        await cluster.run_for("1s")
        assert not process.running


async def test_run_without_a_named_program_is_refused_before_it_begins() -> None:
    whole = {**HEAD, "spec": {"duration": "1m", "cluster": {"ownPrograms": ["mine"]}}}
    with pytest.raises(InputError, match="the scenario has the program 'mine'"):
        await run_plan(compile_plan(Document("f.yaml", whole), Path()))


@pytest.mark.parametrize("text", ["mover", "=a:b", "mover="])
def test_malformed_program_of_the_command_line_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "single-node-death", "--program", text]) == 2
    assert "write it as NAME=module:function" in capsys.readouterr().err
