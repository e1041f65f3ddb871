"""dev.py: how the environment is made, and asked for the command, where its user is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.test_build import dev

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the command here is a script of a Unix shell")
@pytest.mark.parametrize(
    ("arguments", "where", "called"),
    [
        (["orrery", "run", "mine.yaml"], "", "run mine.yaml"),
        (["show", "mine.yaml", "-q"], "", "run mine.yaml -q"),
        (["show"], str(ROOT), "run scenarios/zone-outage.yaml"),
    ],
)
def test_files_are_those_of_the_folder_that_its_user_is_in(
    tmp_path: Path, arguments: list[str], where: str, called: str
) -> None:
    home = tmp_path / "environment"
    (home / "bin").mkdir(parents=True)
    (home / "orrery-lock").write_text(dev().digest(dev().RUN))
    stub = home / "bin" / "orrery"
    stub.write_text('#!/bin/sh\necho "$PWD|$*"\nexit 3\n')
    stub.chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(ROOT / "dev.py"), *arguments],
        cwd=tmp_path,
        env={**os.environ, "ORRERY_VENV": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == (f"{where or tmp_path}|{called}\n", 3)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "  Downloading trio-0.35.0-py3-none-any.whl (513 kB)\n",
            "fetching trio-0.35.0-py3-none-any.whl, 513 kB",
        ),
        (
            "  Downloading https://example.org/a/numpy.whl.metadata (1.2 MB)\n",
            "fetching numpy.whl.metadata, 1.2 MB",
        ),
        ("Processing /wheels/idna-3.20-py3-none-any.whl (from x)\n", "fetching idna-3.20-py3-none-any.whl"),
        ("Installing collected packages: a, b, c\n", "installing 3 packages"),
        ("WARNING: Location is ignored\n", ""),
    ],
)
def test_progress_names_what_is_fetched_and_its_size(line: str, shown: str) -> None:
    assert dev().progress(line) == shown


def test_commands_install_only_the_locks_that_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = dev()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    monkeypatch.setattr(module, "HOME", tmp_path)
    monkeypatch.setattr(module, "BIN", tmp_path / "bin")
    installed: list[str] = []
    monkeypatch.setattr(module, "pip", lambda *words: installed.extend(Path(word).name for word in words))
    for command, locks in (
        ("show", module.RUN),
        ("orrery", ()),
        ("check", module.ALL),
        ("show", ()),
        ("test", ()),
    ):
        installed.clear()
        module.set_up(module.COMMANDS[command])
        assert [word for word in installed if word.endswith(".lock")] == [*locks], command
    assert module.RUN == ("requirements-run.lock", "requirements-build.lock")


def stub_of(folder: Path, build: str) -> Path:
    """A program in the place of a Python, which says of its build what is given here."""
    folder.mkdir()
    python = folder / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    python.write_text(f"#!/bin/sh\necho {build}\n")
    python.chmod(0o755)
    return python


@pytest.mark.skipif(os.name == "nt", reason="the Pythons here are scripts of a Unix shell")
def test_environment_has_a_faster_python_of_the_same_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"{sys.version_info[0]}.{sys.version_info[1]}"
    module = dev()
    own = stub_of(tmp_path / "own", f"{line} False")
    stub_of(tmp_path / "older", "3.9 True")
    fast = stub_of(tmp_path / "fast", f"{line} True")
    monkeypatch.delenv("ORRERY_PYTHON", raising=False)
    monkeypatch.setattr(sys, "executable", str(own))
    monkeypatch.setenv("PATH", f"{tmp_path}/own:{tmp_path}/older:{tmp_path}/fast")
    assert module.chosen_python() == str(fast)
    assert f"taking {fast}" in capsys.readouterr().err
    monkeypatch.setenv("ORRERY_PYTHON", "/opt/mine")
    assert module.chosen_python() == "/opt/mine"
    monkeypatch.delenv("ORRERY_PYTHON")
    stub_of(tmp_path / "guided", f"{line} True")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "guided" / own.name))
    assert module.chosen_python() == str(tmp_path / "guided" / own.name)
    assert capsys.readouterr().err == ""


def test_nightly_runs_every_loop_and_fails_with_a_loop_but_not_with_a_mutant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = dev()
    called: list[tuple[str, ...]] = []
    codes = {"tests.bench.decision_mutants": 9}

    def run(*command: str) -> int:
        called.append(command)
        return codes.get(command[2], 0)

    monkeypatch.setattr(module, "run", run)
    monkeypatch.setenv("ORRERY_SCENARIO_SEEDS", "1")
    assert module.nightly("7") == 0
    assert [each[2] for each in called[:-1]] == [what[0] for what in module.NIGHTLY]
    assert all(each[-1] == "7" for each in called[:-1])
    assert all((ROOT / f"{what[0].replace('.', '/')}.py").exists() for what in module.NIGHTLY)
    codes["tests.bench.sessions"] = 1
    assert module.nightly("7") == 1
    assert "tests.bench.sessions ended with 1" in capsys.readouterr().out
