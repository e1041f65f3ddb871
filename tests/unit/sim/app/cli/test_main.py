"""Bad input of the command line is one line and exit status 2."""

import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from sim.app.cli.main import main
from sim.app.plain_plan import plain_nodes
from sim.app.serving.journal import Session
from sim.app.serving.serve import reached_at
from sim.wire.authority import Authority

ROOT = Path(__file__).resolve().parents[5]
TINY = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: tiny}
spec:
  duration: 20s
  cluster: {nodes: [{count: 1}]}
  objects: [{apiVersion: v1, kind: Service, metadata: {name: far}, spec: {clusterIP: 1.2.3.4, ports: [{port: 80}]}}]
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
        (["--seed", "\u0663"], "argument --seed: \u0663 is no seed: a whole number"),
        (["--seed", "9" * 5000], f"argument --seed: {'9' * 5000} is no seed: a whole number"),
        (["--jobs", "0"], "argument --jobs/-j: 0 is no number"),
        (["--frob"], "unrecognized arguments: --frob"),
    ],
)
def test_bad_argument_is_reported_in_one_line(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", str(tiny), *arguments])
    said = capsys.readouterr().err
    assert caught.value.code == 2
    assert said.startswith(f"orrery: {says}") and said.count("\n") == 1


@pytest.mark.parametrize(
    ("encoding", "name", "shown"),
    [
        ("ascii", "gr\u00f6ber.yaml", b"gr?ber.yaml"),
        ("latin-1", "\u2588.yaml", b"?.yaml"),
        ("utf-8", "\udcff.yaml", b"\xff.yaml"),
    ],
)
def test_what_the_output_has_no_letter_for_is_no_crash(
    tiny: Path, encoding: str, name: str, shown: bytes
) -> None:
    path = tiny.rename(tiny.with_name(name))
    with redirect_stdout(TextIOWrapper(BytesIO(), encoding)) as out:
        assert main(["validate", str(path)]) == 0
    assert shown in out.buffer.getvalue()


def test_a_report_that_is_wanted_and_unwanted_is_refused(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(tiny), "-q", "--no-report", "--report", str(tiny.with_name("r.html"))]) == 2
    assert capsys.readouterr().err == "orrery: --report: contradicts --no-report\n"


@pytest.mark.parametrize("command", ["run", "validate"])
def test_option_without_effect_is_reported(
    tiny: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    flags = "controllerManager: {flags: {pod-eviction-timeout: 1s}}"
    tiny.write_text(TINY.replace("[{count: 1}]", f"[{{count: 1}}], {flags}"))
    assert main([command, str(tiny), *(["-q", "--no-report"] if command == "run" else [])]) == 0
    said = capsys.readouterr().err
    assert said == (
        f"orrery: {tiny}:6:84: option pod-eviction-timeout changes nothing: "
        "pods are evicted by taints, after their tolerationSeconds\n"
    )


JOB = """{{apiVersion: batch/v1, kind: Job, metadata: {{name: pi}}, spec: {{{job}template: {{spec: {{restartPolicy: Never,
    containers: [{{name: pi, image: "r/pi:1", command: [{command}]}}]}}}}}}}}"""
CRON_JOB = """{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: pi}}, spec: {{schedule: "* * * * *", jobTemplate:
    {{spec: {{{job}template: {{spec: {{restartPolicy: Never, containers: [{{name: pi, image: "r/pi:1", command: [{command}]}}]}}}}}}}}}}}}"""


@pytest.mark.parametrize(
    ("manifest", "job", "command", "more", "told"),
    [
        (JOB, "", "java, run.jar", "", "Job pi: the program of container pi has no known end"),
        (CRON_JOB, "", "java, run.jar", "", "CronJob pi: the program of container"),
        (JOB, "", "sleep, 10s", "", ""),
        (JOB, "", "sleep, infinity", "", ""),
        (JOB, "activeDeadlineSeconds: 9, ", "java, run.jar", "", ""),
        (JOB, "", "java, run.jar", "runtime: {exitAfter: 5s}, ", ""),
    ],
)
def test_job_that_would_never_end_is_reported(
    tiny: Path,
    capsys: pytest.CaptureFixture[str],
    manifest: str,
    job: str,
    command: str,
    more: str,
    told: str,
) -> None:
    text = TINY.replace("[{count: 1}]", f"[{{{more}count: 1}}]")
    written = manifest.format(job=job, command=command)
    tiny.write_text(text.replace("objects: [", f"objects: [{written}, "))
    assert main(["validate", str(tiny)]) == 0
    said = capsys.readouterr().err
    assert told in said and bool(said) == bool(told)


@pytest.mark.parametrize("option", ["--report", "--junit", "--trace", "--perfetto"])
def test_unwritable_file_is_reported_before_the_run(
    tiny: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert main(["run", str(tiny), "-q", "--no-report", option, str(tiny.parent)]) == 2
    said = capsys.readouterr()
    assert said.err == f"orrery: {tiny.parent}: is a folder, not a file\n" and not said.out


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ("run", "{}", "-q", "--no-report", option, "{}")
            for option in ("--junit", "--trace", "--perfetto")
        ),
        ("run", "{}", "-q", "--report", "{}"),
        ("sweep", "{}", "--vary", "seed=1,2", "--no-report", "--csv", "{}"),
        ("serve", "{}", "--port", "0", "--journal", "{}"),
    ],
)
def test_scenario_is_not_overwritten_by_an_output(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    before = tiny.read_text()
    assert main([each.format(tiny) for each in arguments]) == 2
    said = capsys.readouterr()
    assert said.err == f"orrery: {tiny}: is an input file, which would be overwritten (name another file)\n"
    assert not said.out and tiny.read_text() == before


def test_a_file_that_turns_out_not_to_be_writable_is_no_crash(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(tiny), "-q", "--no-report", "--junit", "/proc/tiny.xml"]) == 2
    said = capsys.readouterr()
    assert said.err == "orrery: /proc/tiny.xml: cannot be written: No such file or directory\n"
    assert "trace sha256" in said.out  # what was found is not lost by it


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--port", "x"], "argument --port: x is no port: a whole number from 0 to 65535 (see"),
        (
            ["--pace", "fast"],
            "argument --pace: fast is no pace: a number from 0.001 to 1000000, max, or 0 for a start at rest (see",
        ),
        (["--pace", "nan"], "argument --pace: nan is no pace"),
        (["--pace", "1e-9"], "argument --pace: 1e-9 is no pace"),
    ],
)
def test_bad_argument_of_serve_is_reported_with_the_valid_values(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["serve", *arguments])
    assert caught.value.code == 2 and capsys.readouterr().err.startswith(f"orrery: {says}")


def test_nodes_that_are_added_take_names_that_are_free() -> None:
    assert [node.name for node in plain_nodes(3)] == ["node-0", "node-1", "node-2"]
    assert [node.name for node in plain_nodes(3, ("node-0", "node-2"))] == ["node-1", "node-3", "node-4"]


def test_a_wrong_setting_and_a_filter_of_a_whole_trace_are_refused(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", "--set", "cluster.schedulr=3"]) == 2
    assert main(["show", str(tiny), "--kind", "step", "--perfetto", str(tiny.parent / "p.json")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "orrery: --set cluster.schedulr=3: unknown field 'schedulr' (did you mean 'scheduler'?)",
        "orrery: --perfetto: writes the whole trace (leave the other options out)",
    ]


@pytest.mark.parametrize(
    ("host", "reached"),
    [("localhost", "localhost"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("fe80::2", "[fe80::2]")],
)
def test_client_gets_an_address_that_it_can_reach(host: str, reached: str) -> None:
    assert reached_at(host) == reached


def test_a_host_with_a_long_name_gets_a_certificate() -> None:
    assert b"BEGIN CERTIFICATE" in Authority("ca").server(("a." * 50 + "example",)).certificate


def test_unwritable_journal_is_reported_before_serving(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", "--journal", str(tiny.parent)]) == 2
    assert capsys.readouterr().err == f"orrery: {tiny.parent}: is a folder, not a file\n"


@pytest.mark.slow
def test_every_output_says_that_a_condition_held_when_its_window_opened(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expect = '{name: up, eventually: "all nodes are ready", after: 20s}'
    tiny.write_text(TINY.replace("20s", "30s").replace("  objects", f"  expect: [{expect}]\n  objects"))
    junit, report = tiny.with_suffix(".xml"), tiny.with_suffix(".html")
    assert main(["run", str(tiny), "-q", "--junit", str(junit), "--report", str(report)]) == 0
    plain = capsys.readouterr().out
    assert main(["run", str(tiny), "--json"]) == 0
    (expectation,) = json.loads(capsys.readouterr().out)["expectations"]
    assert (expectation["measured"], expectation["values"]) == ("held already at 0m20s", [0.0])
    for output in (plain, junit.read_text(), report.read_text()):
        assert "held already at 0m20s" in output


@pytest.mark.slow
def test_server_without_a_possible_login_reports_that() -> None:
    command = [sys.executable, "-m", "sim.app.cli.main", "serve", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stderr is not None
        try:
            said = server.stderr.readline()
            assert said.startswith("orrery: no user can log in but on the live page (give --token-auth-file,")
        finally:
            server.terminate()


def test_a_bad_value_of_a_sweep_names_what_was_typed(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(tiny), "-q", "--vary", "cluster.nodes[0].count=1,0"]) == 2
    said = capsys.readouterr().err
    assert said == "orrery: --vary cluster.nodes[0].count=0: expected a whole number >= 1\n"


def test_the_folder_that_examples_write_to_is_made(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tiny.parent)
    assert main(["run", str(tiny), "-q", "--no-report", "--trace", "out/tiny.trace"]) == 0
    assert (tiny.parent / "out" / "tiny.trace").exists()
    assert main(["run", str(tiny), "-q", "--no-report", "--trace", "elsewhere/tiny.trace"]) == 2


@pytest.mark.parametrize("more", [(), ("--seeds", "3"), ("--vary", "seed=1,2")])
def test_unwritable_report_is_reported_before_the_work(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tiny.parent)
    (tiny.parent / "out").touch()
    assert main(["sweep" if "--vary" in more else "run", str(tiny), "-q", *more]) == 2
    said = capsys.readouterr()
    assert "there is no folder out (--report FILE or --no-report)" in said.err and not said.out


def test_list_reports_bad_files_and_continues(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tiny.parent / "bad.yaml").write_text("[1")
    assert main(["list", str(tiny.parent)]) == 2
    said = capsys.readouterr()
    assert said.out.split() == [str(tiny)] and "bad.yaml:2:1: is not valid YAML" in said.err
    (tiny.parent / "bad.yaml").write_text(TINY.replace("metadata: {name: tiny}", "metadata: {name: [tiny]}"))
    assert main(["list", str(tiny.parent)]) == 2
    assert "bad.yaml:3:18: expected text, got a list" in capsys.readouterr().err


def test_list_reads_the_head_of_a_file_only(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rest = "{nodes: [{count: 1, flags: {max-pod: 3}}]}"
    text = TINY.replace("{nodes: [{count: 1}]}", rest).replace(
        "{name: tiny}", "{name: tiny, description: Two}"
    )
    tiny.write_text(text)
    assert main(["list", str(tiny.parent)]) == 0
    assert capsys.readouterr().out == f"{tiny}  Two\n"
    assert main(["validate", str(tiny)]) == 2
    assert "unknown option max-pod (did you mean 'max-pods'?)" in capsys.readouterr().err


def test_a_folder_without_scenarios_is_said_to_have_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", str(tmp_path)]) == 0
    assert capsys.readouterr().err == f"orrery: {tmp_path}: there are no scenarios (*.yaml) in it\n"


@pytest.mark.parametrize(
    ("option", "says"), [("--from", "'5' is not a time (write it as 90s"), ("--grep", "missing )")]
)
def test_bad_filter_is_reported_with_its_option(
    tiny: Path, capsys: pytest.CaptureFixture[str], option: str, says: str
) -> None:
    assert main(["show", str(tiny), option, "5" if option == "--from" else "("]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"orrery: {option}") and says in said


def command(*arguments: str, **more: Any) -> subprocess.Popen[bytes]:
    # Output is buffered, as in a pipe.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    run = [sys.executable, "-m", "sim.app.cli.main", *arguments]
    return subprocess.Popen(run, cwd=ROOT, env=environment, stderr=subprocess.PIPE, **more)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("list",), ("list", "--help"), ("run", "scenarios/single-node-death.yaml", "--no-report")]
)
def test_output_without_a_reader_ends_a_command_silently(arguments: tuple[str, ...]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    process = command(*arguments, stdout=theirs)
    os.close(theirs)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (141, b"")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("option", ["", "--trace", "--junit"])
def test_full_disk_is_reported_in_one_line(tiny: Path, option: str) -> None:
    more = (option, "/dev/full") if option else ()
    with open("/dev/full" if not option else os.devnull, "wb") as out:
        process = command("run", str(tiny), "-q", "--no-report", *more, stdout=out)
        _, said = process.communicate(timeout=60)
    what = {"": "cannot write", "--trace": "/dev/full", "--junit": "/dev/full: cannot be written"}[option]
    assert (process.returncode, said) == (2, f"orrery: {what}: No space left on device\n".encode())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device of Unix")
def test_files_without_end_are_not_read_to_it(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "/dev/zero"]) == 2
    assert main(["run", str(tiny), "--seeds", "1", "--resume", "/dev/zero"]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == "orrery: /dev/zero: the file has more than 4194304 bytes"
    assert second == "orrery: /dev/zero: is no ordinary file"


def test_rejected_commands_of_a_scenario_are_reported(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tiny.parent / "tiny.html"
    assert main(["run", str(tiny), "-q", "--report", str(report)]) == 0
    assert "refused apply services/far at 15.00" in capsys.readouterr().out
    assert "spec.clusterIPs: Invalid value" in report.read_text()
    assert main(["run", str(tiny), "-q", "--json"]) == 0
    assert "spec.clusterIPs: Invalid value" in capsys.readouterr().out


def test_a_resync_of_no_period_is_no_resync(tiny: Path) -> None:
    setting = "cluster.controllerManager.flags.namespace-sync-period=0s"
    assert main(["run", str(tiny), "-q", "--no-report", "--set", setting]) == 0


def test_a_run_of_which_nothing_is_expected_says_so(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tiny), "-q", "--no-report"]) == 0
    said = capsys.readouterr().out
    assert "nothing is expected of it" in said and "measured" not in said


def test_invalid_dask_address_is_reported_in_one_line(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    # which would complain once more when it is taken away
    monkeypatch.setattr(distributed, "Client", None)
    assert main(["run", str(tiny), "--seeds", "2", "--dask", "nonsense"]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("orrery: nonsense: no Dask scheduler answers: missing port number")


def test_filter_without_matches_is_reported(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(tiny.parent / "t.trace")
    assert main(["run", str(tiny), "-q", "--no-report", "--trace", trace]) == 0
    capsys.readouterr()
    assert main(["show", trace, "--actor", "nobody"]) == 0
    told = capsys.readouterr().err
    assert told.startswith('no record is of an actor like "nobody"; there are: ') and " node-0," in told
    assert main(["show", trace, "--actor", "node-0", "--kind", "actor", "--from", "19s"]) == 0
    assert "no record is like that\n" in capsys.readouterr().err
    assert main(["show", trace, "--from", "9s", "--to", "3s"]) == 2
    assert capsys.readouterr().err == "orrery: --from 9s --to 3s: ends before it begins\n"


def test_serve_takes_options_of_the_api_server_without_a_scenario(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["serve", "--port", "0", "--api-server"]
    assert main([*arguments, "livez-grace-period=soon"]) == 2
    assert "cluster.apiServer.flags.livez-grace-period=soon" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*arguments, "livez-grace-period"])
    assert "'livez-grace-period' is no NAME=VALUE" in capsys.readouterr().err
    plan = Session("", ("cluster.apiServer.flags.runtime-config=api/alpha=true",), "kubernetes").plan()
    as_kubeadm = {"enable-admission-plugins": "NodeRestriction"}
    assert plan.cluster.api_server.flags == {"runtime-config": "api/alpha=true", **as_kubeadm}
