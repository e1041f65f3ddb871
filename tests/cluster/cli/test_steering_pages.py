"""The pages about steering a cluster, followed: each command of `orrery ctl` works as written.

The server is one of its own process; commands run here, as the pages give them.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from sim.app.cli.commands.ctl import value_of
from sim.app.cli.main import main
from sim.app.lab.lab import Lab
from sim.errors import InputError

PAGES = Path(__file__).parents[3] / "docs" / "how-to"
START_S = 60.0


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[Path]:
    """A server with a data directory, and its client configuration."""
    config = folder / "config"
    command = [sys.executable, "-m", "sim.app.cli.main", "serve", "--naming", "kubernetes", "--port", "0"]
    command += ["--client-config", str(config), "--data-dir", str(folder / "data"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            end_s = time.monotonic() + START_S
            while not config.exists():
                assert server.poll() is None and time.monotonic() < end_s
                time.sleep(0.05)  # until another process has made a file
            yield config
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate()
    assert server.returncode == 0


def commands_of(page: str, folder: Path) -> list[list[str]]:
    """The commands of a page that steer, or run and show what was saved."""
    text = (PAGES / page).read_text(encoding="utf-8")
    lines = [line for block in text.split("```bash\n")[1:] for line in block.partition("```")[0].splitlines()]
    wanted = [line for line in lines if line.startswith(("orrery ctl", "orrery run", "orrery show"))]
    return [shlex.split(line.replace("out/", f"{folder}/"))[1:] for line in wanted]


@pytest.mark.slow
def test_incident_is_rehearsed_saved_and_run_again_with_one_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = commands_of("rehearse-an-incident.md", tmp_path)
    assert [words[1] for words in commands if words[0] == "ctl"][-1] == "save"
    with served(tmp_path, "--nodes", "6") as config:
        monkeypatch.setenv("KUBECONFIG", str(config))
        for words in commands:
            assert main(words) == 0, words
        said = capsys.readouterr().out
        assert "by admin" in said
        assert "holds   noticed" in said
        assert main(["ctl", "state", "--json"]) == 0
        state = json.loads(capsys.readouterr().out)
    assert main(["run", str(tmp_path / "rehearsed.yaml"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["trace_sha256"] == state["trace_sha256"]
    assert [one["ok"] for one in result["expectations"]] == [True]
    assert main(["replay", str(tmp_path / "data" / "journal"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["as_served"] is True
    _, healed = yaml.safe_load((tmp_path / "rehearsed.yaml").read_text())["spec"]["timeline"]
    for at, ready in (("30s", "Ready"), (healed["at"], "NotReady")):
        assert main(["back", str(tmp_path / "data" / "journal"), at, "--", "get", "node", "node-0"]) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["node-0", ready]
    assert main(["back", "--program", "mine=mine:run", str(tmp_path / "data" / "journal"), "30s"]) == 2


@pytest.mark.slow
def test_operator_is_debugged_in_lockstep_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path, "--nodes", "1") as config:
        monkeypatch.setenv("KUBECONFIG", str(config))
        for words in commands_of("debug-your-operator-in-lockstep.md", tmp_path):
            assert main(words) == 0, words
        assert "held by debugger" in capsys.readouterr().out
        assert main(["ctl", "release", "debugger"]) == 2
        assert "holds nothing" in capsys.readouterr().err
        assert main(["ctl", "fail", "--nodes", "name=node-9", "--how", "power-loss"]) == 2
        assert "node-9" in capsys.readouterr().err


@pytest.mark.slow
def test_lab_steers_a_served_cluster(tmp_path: Path) -> None:
    with served(tmp_path, "--nodes", "2") as config:
        lab = Lab.connect(config)
        lab.pause()
        lab.expect({"name": "lost", "when": "any nodes have Ready=Unknown", "within": ["30s", "50s"]})
        assert lab.fail(nodes={"name": "node-0"}, how="power-loss", for_="10m") == "fail-1"
        took_s = lab.run_until("any nodes have Ready=Unknown")
        assert took_s is not None and 30 < took_s < 50
        assert lab.state().ready == 1
        assert [one["state"] for one in lab.expectations()] == ["holds"]
        assert "by admin" in str(lab.why("node/node-0"))
        assert lab.run_until("any nodes have Ready=False", limit="1m") is None
        lab.save(tmp_path / "mine.yaml", name="mine")
        with pytest.raises(InputError, match="exists already"):
            lab.save(tmp_path / "mine.yaml")
        with pytest.raises(AttributeError, match="fail"):
            lab.fial(nodes={})
        with pytest.raises(InputError, match="node-9"):
            lab.fail(nodes={"name": "node-9"}, how="power-loss")
        sha256, before_s = lab.trace_sha256, lab.now_s
    result = json.loads(run_of(tmp_path / "mine.yaml"))
    assert (result["trace_sha256"], result["virtual_s"]) == (sha256, before_s)


def run_of(file: Path) -> str:
    """What a run of a scenario prints as JSON."""
    command = [sys.executable, "-m", "sim.app.cli.main", "run", str(file), "--json"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def test_values_of_options_are_yaml_pairs_or_lists() -> None:
    assert value_of(["5"]) == 5
    assert value_of(["zone=a,count=2"]) == {"zone": "a", "count": 2}
    assert value_of(["{zone: [a, b]}"]) == {"zone": ["a", "b"]}
    assert value_of(["zone a", "apiserver"]) == ["zone a", "apiserver"]
    with pytest.raises(InputError, match="is no YAML"):
        value_of(["{zone"])


def test_file_that_is_no_client_configuration_is_named_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ctl", "state", "--client-config", str(tmp_path / "nothing")]) == 2
    assert f"option client-config: {tmp_path / 'nothing'}: no such file" in capsys.readouterr().err
    file = tmp_path / "config"
    file.write_text("[1, 2]")
    assert main(["ctl", "state", "--client-config", str(file)]) == 2
    assert "is no client configuration" in capsys.readouterr().err
    file.write_text("{contexts: [], clusters: [], current-context: kind}")
    assert main(["ctl", "state", "--client-config", str(file), "--context", "mine"]) == 2
    assert "contexts has no entry 'mine' with a context" in capsys.readouterr().err
