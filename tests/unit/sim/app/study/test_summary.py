"""The summary of the outcomes of many seeds, and how outcomes are kept and shown."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import FileIO, StringIO
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console
from rich.progress import Progress

from sim.app.study.outcome import Job, Key, Measured, Outcome, key_of, packed, perform
from sim.app.study.results import Results
from sim.app.study.study_report import junit_of_study, write_study
from sim.app.study.summary import Study, failures, jobs_of, study_of
from sim.app.study.terminal import followed, print_study, repeat_command
from sim.errors import InputError
from sim.scenario.compile import load
from sim.scenario.plan.plan import Plan

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: small, description: Two nodes come up.}
spec:
  seed: 4
  duration: 30s
  cluster: {nodes: [{count: 2}]}
  expect:
    - {name: up, when: "each nodes are ready", within: [0s, 20s], over: {p50: "<= 12s", seeds: 3}}
    - {name: never, never: {deleted: nodes}}
    - {name: often, when: "all nodes are ready", within: [0s, 10s], over: {share: ">= 50%"}}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    file = tmp_path / "small.yaml"
    file.write_text(SCENARIO)
    return load(file)


def outcome(seed: int, up: tuple[float, ...], never: bool = True, error: str = "") -> Outcome:
    if error:
        return Outcome("k", seed, error=error)
    often = max(up) <= 10
    return Outcome(
        "k",
        seed,
        wall_s=0.5,
        expectations=(
            Measured("up", "when", max(up) <= 20, "…", "0.00s to 20.00s", up, 2 - len(up)),
            Measured("never", "never", never, "never" if never else "1 times", "never"),
            Measured("often", "when", often, f"{max(up):.2f}s", "0.00s to 10.00s", (max(up),)),
        ),
    )


def test_an_expectation_holds_if_every_seed_and_the_bounds_over_all_hold(plan: Plan) -> None:
    runs = [outcome(5, (3.0, 9.0)), outcome(4, (2.0, 15.0)), outcome(6, (1.0, 8.0))]
    study = study_of(plan, runs, 3)
    # one seed fails "often", of which half is enough
    assert study.ok and study.complete and study.held == 2
    assert [one.seed for one in study.outcomes] == [4, 5, 6]
    up = study.findings[0].quantities[0]
    assert up.groups == ((2.0, 15.0), (3.0, 9.0), (1.0, 8.0)) and up.wanted == (0, 20)
    assert failures(study) == []

    late = study_of(plan, [outcome(seed, (14.0, 15.0)) for seed in range(3)], 3)
    assert [one.ok for one in late.findings] == [False, True, False]
    assert late.findings[0].judged is not None and late.findings[0].judged.measured == "p50 14.00s"


def test_one_broken_seed_fails_what_must_hold_in_all(plan: Plan) -> None:
    runs = [outcome(4, (1.0, 2.0)), outcome(5, (1.0, 2.0), never=False), outcome(6, (1.0, 2.0))]
    study = study_of(plan, runs, 3)
    assert not study.ok and [one.held for one in study.findings] == [3, 2, 3]
    [(broken, text)] = failures(study)
    assert broken.seed == 5 and text == "never: measured 1 times, wanted never"


def test_a_run_that_ends_with_an_exception_fails_the_study(plan: Plan) -> None:
    study = study_of(plan, [outcome(4, (1.0, 2.0)), outcome(5, (), error="DeadlockError: all wait")], 2)
    assert not study.ok and study.findings[1].held == 1 and not study.findings[1].ok
    # two seeds of three
    assert study.findings[0].judged is not None and study.findings[0].judged.ok is None
    assert failures(study)[0][1] == "DeadlockError: all wait"
    told = junit_of_study(plan, study, ["spec.duration=1m"])
    assert "1 of 2 did not\nseed 5: DeadlockError: all wait\n" in told and "--seed 5 --set spec" in told


def test_failing_seed_is_shown_as_the_command_that_repeats_it(plan: Plan) -> None:
    assert repeat_command(replace(plan, file="a b.yaml"), 7, ["spec.duration=1m", "x=[1, 2]"]) == (
        "orrery run 'a b.yaml' --seed 7 --set spec.duration=1m --set 'x=[1, 2]'"
    )
    assert repeat_command(replace(plan, file="-a.yaml"), 7, []) == "orrery run ./-a.yaml --seed 7"


@pytest.mark.parametrize("name", ["up [zone a]", "up [/b] :warning:"])
def test_names_are_printed_as_they_are(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "[a] small.yaml"
    file.write_text(SCENARIO.replace("name: up,", f'name: "{name}",').replace("[0s, 20s]", "[0s, 1s]"))
    plan, sets = load(file), ["cluster.nodes[0].zones=[a,b]"]
    runs = [outcome(seed, (8.0, 9.0)) for seed in (4, 5, 6)]
    broken = [replace_names(one, name, ok=False) for one in runs]
    print_study(plan, study_of(plan, broken, 3), 1.0, sets, file)
    told = capsys.readouterr().out
    assert told.count(name) == 2 + 3  # in both tables and of each seed
    assert told.count(repeat_command(plan, 5, sets)) == 1 and f"report: {file}" in told


def replace_names(run: Outcome, name: str, ok: bool) -> Outcome:
    first, *others = run.expectations
    return msgspec.structs.replace(
        run, expectations=(msgspec.structs.replace(first, name=name, ok=ok), *others)
    )


def test_the_key_follows_what_a_plan_means_and_not_where_it_lies(plan: Plan, tmp_path: Path) -> None:
    other = tmp_path / "folder"
    other.mkdir()
    moved = other / "moved.yaml"
    moved.write_text("# a comment\n" + SCENARIO.replace("seed: 4", "seed: 9"))
    assert key_of(load(moved)) == key_of(plan)
    assert key_of(load(moved, ["cluster.nodes[0].count=3"])) != key_of(plan)
    # What was set is as the file has it.
    assert key_of(load(moved, ["metadata.name=" + plan.name])) == key_of(plan)
    assert [job.seed for job in jobs_of(plan, 4, 3)] == [4, 5, 6]


def test_key_of_plan_with_flags_ignores_places_of_flags(tmp_path: Path) -> None:
    flags = (
        "cluster: {controllerManager: {flags: {node-monitor-period: 4s}}, nodes: [{flags: {max-pods: 50}, "
    )
    files = tmp_path / "first.yaml", tmp_path / "second.yaml"
    for file, comment in zip(files, ("", "# a comment\n"), strict=True):
        file.write_text(comment + SCENARIO.replace("cluster: {nodes: [{", flags))
    first, second = map(load, files)
    assert first.cluster.controller_manager.flags and first.cluster.nodes[0].flags
    assert key_of(first) == key_of(second)


class CountingPool:
    def __init__(self) -> None:
        self.seeds: list[int] = []

    def __call__(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        for job in jobs:
            self.seeds.append(job.seed)
            yield Outcome(job.key, job.seed, error="broke" if job.seed == 2 else "")


def jobs(count: int, key: str = "k") -> list[Job]:
    return [Job(Key(key), seed, b"") for seed in range(count)]


def test_a_second_start_does_only_what_is_left(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    first, second, other = CountingPool(), CountingPool(), CountingPool()
    assert len(list(Results(file).perform(jobs(4), first))) == 4
    assert len(list(Results(file).perform(jobs(6), second))) == 6
    assert second.seeds == [2, 4, 5]  # the one that broke, and what is new
    list(Results(file).perform(jobs(2, "changed"), other))
    assert other.seeds == [0, 1]


def test_a_stopped_start_keeps_what_was_done_and_a_cut_line_is_done_again(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    for number, _ in enumerate(Results(file).perform(jobs(9), CountingPool())):
        if number == 4:
            break
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    again = CountingPool()
    assert len(list(Results(file).perform(jobs(9), again))) == 9
    assert again.seeds == [2, 4, 5, 6, 7, 8]
    kept = [msgspec.json.decode(line, type=Outcome).seed for line in file.read_bytes().splitlines()]
    assert kept == [0, 1, 2, 3, 2, 4, 5, 6, 7, 8]


def test_a_foreign_file_is_not_taken_for_results(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text('{"key": "k", "seed": 1}\nhello\n')
    with pytest.raises(InputError, match=r"notes\.txt:2: not a line of results: .*damaged line"):
        Results(file)


@pytest.mark.parametrize("text", ["to do", '{"k', "{"])
def test_only_the_beginning_of_a_result_is_cut_off_a_files_end(tmp_path: Path, text: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(text)
    if text == "to do":
        with pytest.raises(InputError, match=r"notes\.txt: not a line of results"):
            Results(file)
        assert file.read_text() == text
    else:
        assert Results(file).summary(jobs(1)) == "" and file.read_text() == text
        list(Results(file).perform(jobs(1), CountingPool()))
        assert msgspec.json.decode(file.read_bytes(), type=Outcome).seed == 0


def test_progress_goes_by_the_runs_of_this_start(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr("sim.app.study.terminal.perf_counter", lambda: float(next(clock)))
    console = Console(file=StringIO(), force_terminal=True)
    with Progress(console=console, auto_refresh=False) as display:
        display.add_task("x", total=12, rate="")
        told = []
        for _ in followed([Outcome("k", seed) for seed in range(12)], display, kept=9):
            (task,) = display.tasks
            told.append((task.completed, task.fields["rate"]))
    assert told[8:11] == [(9, ""), (10, "1.0 seeds/s  holds in 100%"), (11, "1.0 seeds/s  holds in 100%")]


def test_a_file_that_another_run_is_writing_is_left_to_it(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    under_way = Results(file).perform(jobs(9), CountingPool())
    next(under_way)
    second = CountingPool()
    with pytest.raises(InputError, match=r"results\.jsonl: another run is writing it"):
        list(Results(file).perform(jobs(9), second))
    assert second.seeds == [] and len(list(under_way)) == 8
    assert len(list(Results(file).perform(jobs(9), second))) == 9 and second.seeds == [2]


def test_full_disk_is_reported_with_the_files_name(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    with FileIO("/dev/full", "a") as full, pytest.raises(OSError, match="No space left") as caught:
        results._write(full, b"{}\n")
    assert caught.value.filename == str(results.file)


def test_results_of_a_changed_scenario_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    assert Results(file).summary(jobs(4)) == ""
    list(Results(file).perform(jobs(4), CountingPool()))  # of which one broke
    assert Results(file).summary(jobs(9)) == f"{file}: 3 results are taken from it"
    assert Results(file).summary(jobs(2, "changed")) == (
        f"{file}: 4 results are left alone, of another scenario, other settings or another version"
    )


def test_a_bug_in_a_run_is_an_outcome(plan: Plan) -> None:
    broken = replace(plan, steps=(None,))  # type: ignore[arg-type]
    found = perform(Job(Key("k"), 3, packed(broken)))
    assert not found.ok and found.error.startswith("AttributeError: ")


def failed_study(plan: Plan) -> Study:
    runs = [outcome(seed, (1.0, 2.0 + seed), never=seed != 5) for seed in range(4, 8)]
    return study_of(plan, runs, 4)


def test_junit_has_a_case_an_expectation_with_measured_and_wanted(plan: Plan) -> None:
    root = ElementTree.fromstring(junit_of_study(plan, failed_study(plan), ["spec.duration=1m"]))
    suite = root[0]
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    cases = {case.get("name"): case.find("failure") for case in suite.findall("testcase")}
    assert [name for name, failure in cases.items() if failure is not None] == ["never"]
    failure = cases["never"]
    assert failure is not None and failure.get("message") == "holds in 3 of 4 seeds"
    assert "seed 5: measured 1 times, wanted never" in (failure.text or "")
    assert "--seed 5 --set spec.duration=1m" in (failure.text or "")


def test_the_page_shows_every_distribution_and_what_failed(plan: Plan, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_study(page, plan, failed_study(plan), [])
    text = page.read_text()
    assert (
        text.count('<div class="chart"') == 2 and "p99" in text and ">FAILED<" in text and "--seed 5" in text
    )


def test_values_that_never_occurred_are_shown_as_such(
    plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # one node of two, each time
    study = study_of(plan, [outcome(4, (1.0,)), outcome(5, (2.0,))], 2)
    print_study(plan, study, 1.0, [], None)
    (line,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("up  ")]
    assert line[1:6] == ["1.00", "2.00", "never", "never", "2.00"] and "(2 never)" in " ".join(line)

    never = msgspec.structs.replace(study.outcomes[0].expectations[0], values=(), missing=2)
    none = msgspec.structs.replace(
        study.outcomes[0], expectations=(never, *study.outcomes[0].expectations[1:])
    )
    study = study_of(plan, [none], 1)
    assert study.to_json()["expectations"][0]["quantities"] == [
        {"name": "up", "unit": "s", "missing": 2, "summary": None, "values": []}
    ]
    print_study(plan, study, 1.0, [], None)
    assert "0 (2 never)" in capsys.readouterr().out
    page = tmp_path / "page.html"
    write_study(page, plan, study, [])
    text = page.read_text()
    assert '<td>up</td><td class="number">0</td><td class="number">2</td>' + never_cells(5) in text
    assert "pN is the least value that" in text


def never_cells(count: int) -> str:
    return '<td class="number">never</td>' * count


def test_samples_from_elsewhere_are_drawn_beside_what_was_measured(tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("found\n1.2\n2.1\n3.3\n4\n")
    file = tmp_path / "small.yaml"
    file.write_text(SCENARIO.replace('p50: "<= 12s"', "like: {file: real.csv, column: found}"))
    plan = load(file)
    page = tmp_path / "page.html"
    study = failed_study(plan)
    assert study.findings[0].judged is not None and study.findings[0].judged.measured.startswith("D 0.")
    write_study(page, plan, study, [])
    assert (
        page.read_text().count('<div class="chart"') == 3 and '"system":"real.csv found"' in page.read_text()
    )
    (tmp_path / "real.csv").write_text("found\n1.3\n")
    assert key_of(load(file)) != key_of(plan)  # results of other samples are judged again


@pytest.mark.parametrize("columns", [20, 40, 75, 80, 107, 108, 300])
def test_a_terminal_of_any_width_shows_every_number_whole(
    columns: int, plan: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in (("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", str(columns))):
        monkeypatch.setenv(variable, value)  # the first: as a terminal
    print_study(plan, study_of(plan, [outcome(seed, (1.25,)) for seed in (4, 5, 6)], 3), 1.0, [], None)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    told = " ".join(" ".join(lines).split())
    assert "…" not in told and max(map(len, lines)) <= columns and told.count("1.25") >= 6
    assert ("p90 1.25, p99 1.25" in told) == (columns < 76) and ("█" in told) == (columns >= 108)
