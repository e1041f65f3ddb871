"""Bad input of the command line is one line and exit status 2."""

from pathlib import Path

import pytest

from sim.app.cli import main

TINY = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: tiny}
spec:
  duration: 20s
  cluster: {nodes: [{count: 1}]}
  objects: [{apiVersion: v1, kind: Pod, metadata: {name: empty}, spec: {containers: []}}]
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path / "tiny.yaml"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seeds", "abc"], "argument --seeds: abc is no number from 1 to 10000000 (see orrery run --help)"),
        (["--seed", "-4"], "argument --seed: -4 is no seed: a whole number from 0 to 2^53 - 1"),
        (["--jobs", "0"], "argument --jobs/-j: 0 is no number"),
        (["--frob"], "unrecognized arguments: --frob"),
    ],
)
def test_a_bad_argument_is_told_in_one_line(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", str(tiny), *arguments])
    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert said.startswith(f"orrery: {says}") and said.count("\n") == 1


@pytest.mark.parametrize("option", ["--report", "--junit", "--trace", "--perfetto"])
def test_a_file_that_cannot_be_written_is_told_before_the_run(
    tiny: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert main(["run", str(tiny), "-q", "--no-report", option, str(tiny.parent)]) == 2
    said = capsys.readouterr()
    assert said.err == f"orrery: {tiny.parent}: is a folder, not a file\n" and not said.out


def test_a_file_that_turns_out_not_to_be_writable_is_no_crash(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(tiny), "-q", "--no-report", "--junit", "/proc/tiny.xml"]) == 2
    assert capsys.readouterr().err == "orrery: /proc/tiny.xml: No such file or directory\n"


def test_what_the_api_refused_of_a_scenario_is_told(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tiny.parent / "tiny.html"
    assert main(["run", str(tiny), "-q", "--report", str(report)]) == 0
    assert "refused apply pods/empty at 15.00" in capsys.readouterr().out
    assert "spec.containers: Required value" in report.read_text()
    assert main(["run", str(tiny), "-q", "--json"]) == 0
    assert 'Pod \\"empty\\" is invalid: spec.containers: Required value' in capsys.readouterr().out


def test_a_resync_of_no_period_is_no_resync(tiny: Path) -> None:
    setting = "cluster.controllerManager.flags.namespace-sync-period=0s"
    assert main(["run", str(tiny), "-q", "--no-report", "--set", setting]) == 0
