"""A hunt: what it searches, keeps and writes, and when it refuses to search."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orrery import hunt
from sim.app.cli.main import main
from sim.app.hunt.ground import ground_of
from sim.app.hunt.hunting import Budget, Hunted, Watching, hunted
from sim.app.hunt.judging import TRIALS, Trial
from sim.app.hunt.reducing import Explained
from sim.app.study.outcome import Job, Outcome, perform
from sim.errors import InputError
from tests.cluster.hunt.test_judging import document

pytestmark = pytest.mark.slow
OUTAGES = {"fail": {"nodes": {"pick": 1}, "how": "power-loss"}, "for": "40s..60s"}


def hunting(**more: Any) -> dict[str, Any]:
    """A scenario that a power loss of 40 s breaks, with a palette of those."""
    found = document()
    hunt = {
        "palette": [OUTAGES],
        "from": "40s",
        "for": "70s",
        "quiet": "30s",
        "steps": [1, 2],
        "invariants": [],
    }
    found["spec"] |= {"duration": "140s", "hunt": {**hunt, **more}}
    return found


class Pool:
    """Runs jobs in this process, and counts them.  interrupt: number of the job that Ctrl-C ends"""

    def __init__(self, interrupt: int | None = None) -> None:
        self.jobs: list[Job] = []
        self._interrupt = interrupt

    def __call__(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        for job in jobs:
            self.jobs.append(job)
            if len(self.jobs) == self._interrupt:
                raise KeyboardInterrupt
            yield perform(job)

    @property
    def trials(self) -> list[str]:
        return [job.key for job in self.jobs if type(job) is Trial]


def search(scenario: dict[str, Any], budget: str, pool: Pool, **more: Any) -> Hunted:
    more = {"batch": 1, "seed": 1, "shrink": False, **more}
    with TRIALS:  # a process that rests holds the files of this one open
        return hunted(ground_of(scenario), Budget.of(budget), pool, **more)


def test_hunt_finds_a_failure_and_its_story_is_a_scenario_that_fails(tmp_path: Path) -> None:
    result = search(hunting(), "20 runs", Pool(), failures=1, folder=tmp_path, shrink=True)
    assert not result.ok
    (story,) = result.stories
    assert story.finding.failed == ("nodes stay",)
    assert "fail power-loss" in story.finding.cause
    assert len(story.document["spec"]["timeline"]) == 1
    assert story.file == tmp_path / "small-1.yaml"
    assert main(["run", str(story.file), "--quiet", "--no-report"]) == 1


def test_story_needs_no_file_that_the_options_of_the_scenario_name(tmp_path: Path) -> None:
    scenario = hunting()
    scenario["spec"]["cluster"] |= {
        "schedulers": [{"name": "other", "flags": {"config": "other.yaml"}}],
    }
    profiles = "profiles: [{schedulerName: other}]"
    (tmp_path / "other.yaml").write_text(
        f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{profiles}\n"
    )
    file, out = tmp_path / "shop.yaml", tmp_path / "out"
    file.write_text(json.dumps(scenario))
    with TRIALS:
        result = hunted(
            ground_of(file),
            Budget.of("20 runs"),
            Pool(),
            batch=1,
            seed=1,
            failures=1,
            folder=out,
            shrink=False,
        )
    (story,) = result.stories
    assert profiles in story.text
    assert main(["run", str(story.file), "--quiet", "--no-report"]) == 1


def test_story_holds_recorded_values_and_the_varied_files_of_its_run(tmp_path: Path) -> None:
    scenario = hunting(vary={"cluster.schedulers.other.flags.config": ["a.yaml"]})
    scenario["spec"]["cluster"] |= {"schedulers": [{"name": "other"}]}
    profiles = "profiles: [{schedulerName: other}]"
    (tmp_path / "a.yaml").write_text(
        f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{profiles}\n"
    )
    measured = {"name": "as measured", "when": "all nodes are ready"}
    like = {"file": "up.csv", "column": "up_s", "level": "5%"}
    scenario["spec"]["expect"].append({**measured, "over": {"like": like}})
    (tmp_path / "up.csv").write_text("node,up_s\nn0,44.25\nn1,45\n")
    file, out = tmp_path / "shop.yaml", tmp_path / "out"
    file.write_text(json.dumps(scenario))
    ground = ground_of(file)
    assert ground.document["spec"]["expect"][-1]["over"] == {"like": {"level": "5%", "values": [44.25, 45.0]}}
    (config,) = ground.hunt.vary["cluster.schedulers.other.flags.config"]
    assert config["profiles"] == [{"schedulerName": "other"}]
    settings: dict[str, Any] = {"batch": 1, "seed": 1, "failures": 1, "folder": out, "shrink": False}
    with TRIALS:
        (story,) = hunted(ground, Budget.of("20 runs"), Pool(), **settings).stories
    assert "values: [44.25, 45.0]" in story.text
    assert main(["run", str(story.file), "--quiet", "--no-report"]) == 1


def test_varied_file_that_is_absent_is_refused_before_the_first_run(tmp_path: Path) -> None:
    scenario = hunting(vary={"cluster.schedulers.other.flags.config": ["none.yaml"]})
    scenario["spec"]["cluster"] |= {"schedulers": [{"name": "other"}]}
    file = tmp_path / "shop.yaml"
    file.write_text(json.dumps(scenario))
    with pytest.raises(InputError, match=r"option config: .*none\.yaml: no such file"):
        ground_of(file)


def test_story_does_not_replace_a_file(tmp_path: Path) -> None:
    (tmp_path / "small-1.yaml").write_text("mine")
    result = search(hunting(), "20 runs", Pool(), failures=1, folder=tmp_path)
    assert result.stories[0].file == tmp_path / "small-2.yaml"
    assert (tmp_path / "small-1.yaml").read_text() == "mine"


def test_search_is_a_function_of_its_seed() -> None:
    first, second, third = Pool(), Pool(), Pool()
    search(hunting(), "4 runs", first)
    search(hunting(), "4 runs", second)
    search(hunting(), "4 runs", third, seed=2)
    assert first.trials == second.trials
    assert first.trials != third.trials


def test_scenario_that_fails_by_itself_is_not_searched() -> None:
    wrong = hunting()
    wrong["spec"]["expect"] = [{"name": "nodes stay", "never": "nodes have Ready=True", "after": "30s"}]
    pool = Pool()
    result = search(wrong, "20 runs", pool)
    assert [name for name, _ in result.plain] == ["nodes stay"] * 3
    assert not result.ok
    assert len(pool.jobs) == 3


def test_invariant_that_is_not_asked_for_is_left_out_if_the_scenario_breaks_it() -> None:
    scenario = hunting()
    broken = {"name": "never Ready", "never": "nodes have Ready=True", "after": "30s"}
    scenario["spec"]["expect"].append(broken)
    ground = replace(ground_of(scenario), unasked=("never Ready", "steady"))
    result = hunted(ground, Budget.of("1 run"), Pool(), batch=1, seed=1, shrink=False)
    assert result.left_out == ("never Ready",)
    assert result.plain == ()
    assert result.tally.runs > 0


def test_interrupt_keeps_what_was_met_and_a_later_hunt_continues(tmp_path: Path) -> None:
    file, pool = tmp_path / "kept", Pool(interrupt=12)
    stopped = search(hunting(), "20 runs", pool, resume=file)
    assert stopped.stopped == 2
    assert len(stopped.stories) == 1
    again = Pool()
    later = search(hunting(), "3 runs", again, resume=file)
    assert later.tally.numbers == stopped.tally.numbers + 3
    assert [one.finding for one in later.stories] == [one.finding for one in stopped.stories]
    assert not set(again.trials[3:]) & set(pool.trials)


def test_file_of_another_scenario_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kept"
    search(hunting(), "1 runs", Pool(), resume=file)
    with pytest.raises(InputError, match="is of a hunt of another scenario"):
        search(hunting(steps=[1, 3]), "1 runs", Pool(), resume=file)


def test_targets_lead_the_search_and_their_most_is_kept() -> None:
    seen: list[float] = []

    class Notes(Watching):
        def judged(self, search: Any, seconds: float) -> None:
            seen.append(search.corpus.best[0].targets[0])

    scenario = hunting(maximise=["unavailability of deployments/web"])
    result = search(scenario, "6 runs", Pool(), watching=Notes())
    assert result.best["unavailability of deployments/web"] == max(seen)
    assert max(seen) > 20


def test_failures_of_one_cause_are_one_finding() -> None:
    pool = Pool()
    result = search(hunting(), "14 runs", pool)
    assert result.tally.failures > len(result.stories)
    assert sum(result.tally.by_cause.values()) == sum(type(job) is Explained for job in pool.jobs)


@pytest.mark.parametrize(
    ("budget", "error"),
    [
        ("0", "'0' is no budget"),
        ("0 runs", "'0 runs' is no budget .give some time, or some runs"),
        ("500", "'500' is no budget .write 500m or '500 runs'"),
        ("0s", "a budget of 0s finds nothing"),
        ("soon", "'soon' is no budget .write 10m or '500 runs'"),
    ],
)
def test_budget_that_is_none_is_refused(budget: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        Budget.of(budget)


def test_hunt_without_anything_to_judge_is_refused() -> None:
    empty = hunting()
    empty["spec"]["expect"] = []
    with pytest.raises(InputError, match="nothing must hold, and nothing is to be maximised"):
        hunt(empty, "1 runs")


def test_command_prints_json_and_its_status_says_what_was_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(json.dumps(hunting()))
    line = ["hunt", str(file), "--budget", "8 runs", "-j", "1", "--no-shrink", "--out", str(tmp_path / "out")]
    assert main([*line, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["findings"][0]["failed"] == ["nodes stay"]
    assert Path(found["findings"][0]["file"]).exists()
    assert main([*line, "--set", "hunt.palette=[{compact: {}}]"]) == 0
    assert "0 failures of 0 causes" in capsys.readouterr().out
    assert main([*line, "--budget", "none"]) == 2
    assert "is no budget" in capsys.readouterr().err
