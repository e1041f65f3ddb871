"""`orrery why`, `diff`, `show` on the traces of a small run, and on files that are none."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest
import trio

from sim.app.cli.main import main
from sim.app.run import run_plan
from sim.scenario.compile import load

SMALL = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: small}
spec:
  duration: 90s
  cluster: {nodes: [{count: 3}]}
  timeline: [{at: 20s, name: death, fail: {nodes: {name: node-1}, how: power-loss}}]
  expect: [{name: found, when: "nodes named node-1 have Ready=Unknown", within: [29s, 46s], after: death}]
"""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the traces of seeds 1, 1 again and 2."""
    folder = tmp_path_factory.mktemp("traces")
    (folder / "small.yaml").write_text(SMALL)
    for name, seed in (("one", 1), ("same", 1), ("two", 2)):

        async def run(seed: int = seed, name: str = name) -> None:
            await run_plan(load(folder / "small.yaml"), seed=seed, trace_file=folder / name)

        trio.run(run)
    return folder


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str], str]:
    status = main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return status, said.out.splitlines(), said.err


def test_why_shows_the_chain_from_the_fault(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, _ = call(capsys, "why", traces / "one", "node/node-1")
    assert status == 0
    assert lines[0] == "why nodes/node-1: ready True → Unknown (small)"
    assert [line.split()[0] for line in lines[1:3]] == ["0m20.000s", "0m20.000s"]
    assert 'step "death": fail power-loss; nodes node-1 (small.yaml:8:14)' in lines[1]
    assert "the process is gone: power loss" in lines[2]
    assert "has had no heartbeat of nodes/node-1" in lines[3]
    assert lines[4].endswith("updates the status of nodes/node-1: ready True → Unknown")
    status, lines, _ = call(capsys, "why", traces / "one", "no/node-1", "--json")
    (told,) = map(json.loads, lines)
    assert [link["kind"] for link in told["chain"]] == ["step", "actor", "decision", "write"]
    number = told["chain"][2]["record"]
    status, lines, _ = call(capsys, "why", traces / "one", "--event", number)
    assert (status, len(lines)) == (0, 4)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["pod/web"], "pods/default/web is not in it"),
        (["node/node-9"], "nodes/node-9 is not in it (there is nodes/node-"),
        (["node/node"], "nodes/node is not in it (there is nodes/node-"),
        (["lease/node", "-n", "orch-node-lease"], "(there is leases/orch-node-lease/node-"),
        (["node"], '"node" names no object'),
        (["thing/x"], 'there is no resource "thing"'),
        (
            ["node/node-1", "--what", "eaten"],
            'nothing like "eaten" happened to nodes/node-1 (to choose from: created',
        ),
        (["--event", "999999"], "there is no record 999999"),
        ([], "why needs either an object or --event N"),
    ],
)
def test_why_says_in_one_line_what_it_cannot_find(
    traces: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    status, lines, said = call(capsys, "why", traces / "one", *arguments)
    assert (status, lines, said.count("\n")) == (2, [], 1)
    assert error in said


def test_why_takes_a_pattern_for_the_first_object_to_which_it_happened(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines, said = call(capsys, "why", traces / "one", "node/node-*", "--what", "ready=Unknown")
    assert status == 0 and lines[0] == "why nodes/node-1: ready True → Unknown (small)"
    assert said == "3 match nodes/node-*; this is nodes/node-1\n"
    status, _, said = call(capsys, "why", traces / "one", "pod/x-*")
    assert (status, said.endswith("nothing in it matches pods/default/x-*\n")) == (2, True)


def test_the_object_may_stand_behind_options(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines, _ = call(capsys, "why", traces / "one", "node/node-1", "--what", "ready=Unknown")
    assert call(capsys, "why", traces / "one", "--what", "ready=Unknown", "node/node-1") == (0, lines, "")
    for more in (["a", "b"], ["--bogus"]):
        with pytest.raises(SystemExit) as caught:
            main(["why", str(traces / "one"), "--full", *more])
        assert caught.value.code == 2
        told = capsys.readouterr().err
        # Newer parsers take the first name for the object, and report the remaining ones.
        assert told.startswith("orrery: unrecognized arguments: ") and more[-1] in told


def test_diff_compares_verdicts_and_pictures(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "a-b.html"
    one, two = traces / "one", traces / "two"
    status, lines, _ = call(capsys, "diff", one, two, "--report", report)
    assert (status, lines[-1]) == (1, f"report: {report}")
    row = next(line for line in lines if line.startswith("found "))
    assert len(re.findall(r"holds \d\d\.\d\ds", row)) == 2
    page = report.read_text()
    assert page.count('<div class="chart"') == 2
    assert "they differ from event" in page
    shown = re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)  # without the notices of licences
    assert "http" not in shown.partition("orrery-scripts")[0]
    assert all(text in page for text in re.findall(r"\d\d\.\d\ds", row))
    assert page.count("<table class=chain>") == 2
    status, lines, _ = call(capsys, "diff", one, two, "--json")
    (found,) = json.loads(lines[0])["verdicts"]
    assert (found["name"], found["same"]) == ("found", False)
    assert found["first"]["objects"] == [] and found["second"]["measured"] in row


def test_diff_of_equal_runs_names_no_verdict(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "same.html"
    status, lines, _ = call(capsys, "diff", traces / "one", traces / "same", "--report", report)
    assert (status, len(lines)) == (0, 2) and lines[0].startswith("the same ")
    assert report.read_text().count("holds") == 2
    status, lines, _ = call(capsys, "diff", traces / "one", traces / "same", "--json")
    assert [one["same"] for one in json.loads(lines[0])["verdicts"]] == [True]
    assert (traces / "one").read_bytes() == (traces / "same").read_bytes()


def test_diff_of_a_run_that_was_cut_off_has_one_picture(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut, report = tmp_path / "cut", tmp_path / "cut.html"
    cut.write_bytes((traces / "one").read_bytes()[:-9])
    status, lines, _ = call(capsys, "diff", traces / "one", cut, "--report", report)
    assert (status, lines[-1]) == (0, f"report: {report}")
    page = report.read_text()
    assert (
        page.count('<div class="chart"') == 1 and "its trace holds no picture" in page and "cut off" in page
    )
    assert main(["diff", str(traces / "one"), str(cut), "--report", str(cut)]) == 2


@pytest.mark.slow
def test_chain_in_the_readme_is_the_one_that_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, trace = Path(__file__).resolve().parents[3], tmp_path / "zone.trace"
    scenario = str(root / "scenarios/zone-outage.yaml")
    assert main(["run", scenario, "--json", "--trace", str(trace)]) == 0
    found = json.loads(capsys.readouterr().out)["expectations"]
    assert [one["after"] for one in found][:2] == ["", "outage"]
    _, told, _ = call(capsys, "why", trace, "pod/web-*")
    readme = (root / "README.md").read_text(encoding="utf-8")
    block = next(part for part in readme.split("```") if 'step "outage"' in part)
    shown = [line for line in block.strip("\n").splitlines() if line.strip() != "…"]
    assert len(shown) == 6
    assert all(any(line.startswith(one) for line in told) for one in shown)


def test_diff_finds_where_two_runs_part(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, _ = call(capsys, "diff", traces / "one", traces / "same")
    assert status == 0
    assert lines[0].startswith("the same ")
    status, lines, _ = call(capsys, "diff", traces / "one", traces / "two")
    assert status == 1
    assert lines[0] == "seed: 1 and 2"
    assert lines[1].startswith("they differ from event ")
    assert any(line.startswith("  time: ") and line.count(".") == 2 for line in lines)
    assert [line[:1] for line in lines].count("<") == [line[:1] for line in lines].count(">") == 1
    status, lines, _ = call(capsys, "diff", traces / "one", traces / "two", "--json")
    told = json.loads(lines[0])
    first, second = told["sides"]
    assert (status, told["same"]) == (1, False)
    assert any(line.startswith("time: ") for line in told["differences"])
    assert first["chain"][-1]["record"] == told["events_in_common"] + 1 == second["chain"][-1]["record"]


def test_a_run_that_was_killed_parts_from_a_whole_one_at_its_end(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (traces / "one").read_bytes()
    cut = data[: data.rindex(b"\x94\xff")]
    (tmp_path / "killed").write_bytes(cut)
    status, lines, _ = call(capsys, "diff", traces / "one", tmp_path / "killed")
    assert (status, lines[0].split()[:2]) == (0, ["the", "same"])


def test_what_is_about_no_object_is_not_shown_among_what_is_about_any(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, every, _ = call(capsys, "show", traces / "one", "--json")
    _, some, _ = call(capsys, "show", traces / "one", "--object", "*", "--json")
    left = {json.loads(line)["kind"] for line in every if line not in some}
    assert some and left == {"actor", "step", "zone"}


def test_a_trace_is_not_overwritten_by_what_it_is_turned_into(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "copy").write_bytes(data := (traces / "one").read_bytes())
    status, told, said = call(capsys, "show", tmp_path / "copy", "--perfetto", tmp_path / "." / "copy")
    assert (status, told, said.count("\n")) == (2, [], 1) and "overwritten" in said
    assert (tmp_path / "copy").read_bytes() == data


def test_trace_that_is_cut_off_is_read_up_to_its_last_whole_batch(
    traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut"
    monkeypatch.setattr("sim.kernel.trace.records.BATCH", 20)  # else this run is one batch
    call(capsys, "run", traces / "small.yaml", "--seed", "1", "--json", "--trace", tmp_path / "one")
    data = (tmp_path / "one").read_bytes()
    cut.write_bytes(data[:-9])
    _, whole, _ = call(capsys, "why", traces / "one", "node/node-1")
    status, told, said = call(capsys, "why", cut, "node/node-1")
    assert (status, told, said.count("\n")) == (0, whole, 1) and "cut off" in said
    status, lines, said = call(capsys, "diff", traces / "one", cut)
    assert (status, lines[0].split()[:2]) == (0, ["the", "same"]) and "cut off" in said
    cut.write_bytes(data[: data.rindex(b"\x94\xff") - 400])  # before the end mark
    status, lines, said = call(capsys, "diff", traces / "one", cut)
    assert (status, lines[-1]) == (1, "  has no more events") and "cut off" in said
    status, lines, said = call(capsys, "diff", traces / "one", cut, "--json")
    assert json.loads(lines[0])["notes"] == said.splitlines() and status == 1
    status, told, said = call(capsys, "show", cut, "--kind", "step")
    assert (status, len(told)) == (2, 1) and "cut off" in said
    status, _, said = call(capsys, "show", cut, "--perfetto", tmp_path / "p.json")
    assert status == 0 and "cut off" in said and json.loads((tmp_path / "p.json").read_text())["traceEvents"]


def test_diff_says_first_what_was_set_for_one_run_alone(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, settings in (
        ("a", ["duration=81s", "seed=4"]),
        ("b", ["seed=5", "spec.seed=4", "duration=82s"]),
    ):
        arguments = [word for setting in settings for word in ("--set", setting)]
        call(capsys, "run", traces / "small.yaml", "--json", "--trace", tmp_path / name, *arguments)
    status, lines, _ = call(capsys, "diff", tmp_path / "a", tmp_path / "b")
    assert (status, lines[0]) == (1, "--set duration: 81s and 82s")
    assert lines[1].startswith("they differ from event ")
    status, lines, _ = call(capsys, "diff", traces / "one", tmp_path / "a", "--json")
    assert json.loads(lines[0])["settings"] == [
        "--set duration: not set and 81s",
        "--set seed: not set and 4",
    ]


def test_trace_hash_ignores_the_name_and_the_lines_of_the_scenario_file(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    renamed = tmp_path / "renamed.yaml"
    renamed.write_text("# a comment\n" + SMALL)
    made = {}
    for file, trace in ((traces / "small.yaml", "first"), (renamed, "second")):
        _, lines, _ = call(capsys, "run", file, "--seed", 1, "--json", "--trace", tmp_path / trace)
        _, steps, _ = call(capsys, "show", tmp_path / trace, "--kind", "step")
        made[trace] = json.loads(lines[0])["trace_sha256"], steps[0]
    assert made["first"][0] == made["second"][0]
    (first, line), (second, next_line) = (
        re.findall(r"\((\w+\.yaml):(\d+):\d+\)", made[name][1])[0] for name in ("first", "second")
    )
    assert (first, second) == ("small.yaml", "renamed.yaml")
    assert int(next_line) == int(line) + 1


def test_runs_do_not_differ_because_a_step_moved_within_its_file(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.yaml").write_text(SMALL.replace("  timeline:", "  # a story\n\n  timeline:"))
    call(capsys, "run", tmp_path / "small.yaml", "--seed", 1, "--json", "--trace", tmp_path / "moved")
    status, lines, said = call(capsys, "diff", traces / "one", tmp_path / "moved")
    assert (status, lines[0].split()[:2], said.count("\n")) == (
        0,
        ["the", "same"],
        1,
    ) and "other places" in said
    later = SMALL.replace("  timeline:", "\n  timeline:").replace("power-loss}}", "power-loss}, for: 1m}")
    (tmp_path / "small.yaml").write_text(later)
    call(capsys, "run", tmp_path / "small.yaml", "--seed", 1, "--json", "--trace", tmp_path / "ends")
    _, lines, _ = call(capsys, "diff", traces / "one", tmp_path / "ends")
    assert lines[-1].endswith('step "death" ends')


@pytest.mark.parametrize("command", ["why", "show", "diff"])
@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ("foreign", "is not a trace file"),
        ("changed", "not those that were written"),
        ("gone", "No such"),
    ],
)
def test_a_file_that_is_no_whole_trace_is_one_line_and_exit_2(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, bad: str, error: str
) -> None:
    data = (traces / "one").read_bytes()
    bodies = {
        "foreign": b"apiVersion: v1\n",
        "changed": data.replace(b"node-2", b"node-9", 1),
    }
    path = tmp_path / bad
    if bad in bodies:
        path.write_bytes(bodies[bad])
    more = {"why": ["node/node-1"], "diff": [traces / "one"], "show": ["--kind", "zone"]}[command]
    status, _, said = call(capsys, command, path, *more)
    assert (status, said.count("\n")) == (2, 1)
    assert error in said


def test_show_filters_by_actor_kind_object_time_and_text(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(*options: str) -> list[str]:
        status, lines, _ = call(capsys, "show", traces / "one", *options)
        assert status == 0
        return lines

    assert len(shown()) > 150
    assert [line.split(maxsplit=3)[3] for line in shown("--kind", "step")] == [
        'step "death": fail power-loss; nodes node-1 (small.yaml:8:14)'
    ]
    assert all("node-1 " in line for line in shown("--actor", "node-1"))
    times = [line.split()[1] for line in shown("--from", "20s", "--to", "25s")]
    assert times == sorted(times)
    assert "0m20.000s" <= times[0] <= times[-1] <= "0m25.000s"
    ends = shown("--object", "nodes/node-1", "--kind", "change", "--grep", "ready")
    assert [line.split(maxsplit=2)[2] for line in ends][-1] == "nodes/node-1: ready True → Unknown"
    (row,) = shown("--json", "--kind", "step")
    assert json.loads(row)["at_us"] == 20_000_000
    status, rows, errors = call(capsys, "show", traces / "one", "--kind", "stp")
    assert (status, rows) == (0, [])
    assert 'no record is of the kind "stp"; there are: ' in "".join(errors) and " step," in "".join(errors)
    status, rows, errors = call(capsys, "show", traces / "one", "--object", "node/node-*")
    assert (status, rows) == (0, [])
    assert (
        errors
        == 'no record is about an object like "node/node-*"; there are e.g. nodes/node-0, nodes/node-1, nodes/node-2\n'
    )
    assert call(capsys, "show", traces / "one", "--grep", "(")[0] == 2
    assert call(capsys, "show", traces / "one", "--from", "soon")[0] == 2


def test_show_follows_a_file_up_to_its_end(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (traces / "one").read_bytes()
    growing = tmp_path / "growing"
    growing.write_bytes(data[:-1])  # all blocks but the last
    reader = Thread(target=main, args=(["show", str(growing), "--follow"],))
    limit = monotonic() + 20
    # what is captured else is lost if it comes while it is read
    with redirect_stdout(StringIO()) as seen:
        reader.start()
        while not seen.getvalue() and monotonic() < limit:
            sleep(0.01)
        with growing.open("ab") as file:
            file.write(data[-1:])
        reader.join(20)
    assert not reader.is_alive()
    _, lines, _ = call(capsys, "show", traces / "one")
    assert seen.getvalue().splitlines() == lines


def test_each_line_of_a_file_that_is_followed_is_given_at_once(traces: Path) -> None:
    class Pipe(StringIO):
        flushed = 0

        def flush(self) -> None:
            self.flushed += 1

    for options in ((), ("--json",)):
        with redirect_stdout(Pipe()) as pipe:
            main(["show", str(traces / "one"), "--follow", "--kind", "step", *options])
        assert pipe.flushed > pipe.getvalue().count("\n") == 1  # and once at the end


def test_a_run_can_be_had_as_a_perfetto_file(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, _ = call(
        capsys,
        "run",
        traces / "small.yaml",
        "--seed",
        1,
        "--quiet",
        "--no-report",
        "--perfetto",
        tmp_path / "p.json",
    )
    assert status == 0
    call(capsys, "show", traces / "one", "--perfetto", tmp_path / "q.json")
    assert (tmp_path / "p.json").read_bytes() == (tmp_path / "q.json").read_bytes()
    whole = json.loads((tmp_path / "p.json").read_text())
    assert {event["ph"] for event in whole["traceEvents"]} == {"X", "M", "C", "s", "f"}


def test_report_shows_the_causes_of_each_verdict(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "small.html"
    status, _, _ = call(capsys, "run", traces / "small.yaml", "--quiet", "--report", report)
    page = report.read_text()
    assert status == 0 and "<summary>found</summary>" in page
    assert (
        page.index("power loss")
        < page.index("has had no heartbeat of nodes/node-1")
        < page.index("ready True → Unknown")
    )


UNLED = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: unled}
spec:
  duration: 40s
  cluster: {nodes: [{count: 1}], scheduler: {replicas: 2, flags: {leader-elect-resource-name: mine}}}
"""


@pytest.fixture(scope="module")
def unled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a run in which the schedulers are refused their lease."""
    folder = tmp_path_factory.mktemp("unled")
    (folder / "unled.yaml").write_text(UNLED)

    async def run() -> None:
        await run_plan(load(folder / "unled.yaml"), trace_file=folder / "unled.trace")

    trio.run(run)
    return folder / "unled.trace"


@pytest.mark.parametrize(
    ("target", "actor"),
    [
        (("lease/mine", "-n", "orch-system"), "scheduler-"),
        (("lease/mine", "-n", "orch-system", "--what", "refused"), "scheduler-"),
        (("leases/orch-system/mine",), "scheduler-"),
        (("scheduler",), "scheduler-"),
        (("scheduler-0",), "scheduler-0 "),
    ],
)
def test_why_shows_the_refusal_of_a_lease_that_was_never_written(
    unled: Path, capsys: pytest.CaptureFixture[str], target: tuple[str, ...], actor: str
) -> None:
    status, lines, _ = call(capsys, "why", unled, *target)
    assert status == 0
    assert (
        lines[0].startswith(f"why {actor}") and "cannot lead: is refused leases/orch-system/mine" in lines[0]
    )
    assert "the process starts" in lines[1] and 'cannot get resource "leases"' in lines[-1]


def test_why_of_a_daemon_that_was_refused_nothing_says_so(
    unled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, error = call(capsys, "why", unled, "controller-manager")
    assert status == 2 and "no lease was refused to controller-manager" in error
    assert call(capsys, "why", unled, "node-0")[2].startswith('orrery: "node-0" names no object')


def test_why_of_a_lease_that_is_written_names_its_holder(
    unled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, lines, _ = call(capsys, "why", unled, "lease/orch-controller-manager", "-n", "orch-system")
    assert "holder" in lines[0]
