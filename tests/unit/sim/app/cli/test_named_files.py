"""Files that a command reads or writes: which are rejected, which are replaced, and the effects of
a full disk.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sim import files
from sim.app.cli.main import main

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: tiny}
spec:
  duration: 1s
  cluster: {nodes: [{count: 1}]}
"""
SWEEP = ["sweep", "tiny.yaml", "-q", "--vary", "seed=1,2", "--seeds", "1", "--jobs", "1"]
RUN = ["run", "tiny.yaml", "-q"]
SEEDS = [*RUN, "--seeds", "1", "--jobs", "1"]


def full(_: int) -> None:
    """As a disk that has no room for what was written."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (RUN, "--report"),
        (RUN, "--junit"),
        (RUN, "--perfetto"),
        (SEEDS, "--report"),
        (SEEDS, "--junit"),
        (SWEEP, "--csv"),
    ],
)
def test_full_disk_leaves_the_earlier_output_whole(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    option: str,
) -> None:
    (folder / "f").write_text("yesterday")
    more = [] if option == "--report" else ["--no-report"]
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        assert main([*command, *more, option, "f"]) == 2
    assert "f: cannot be written: No space left on device" in capsys.readouterr().err
    assert ((folder / "f").read_text(), sorted(os.listdir())) == ("yesterday", ["f", "tiny.yaml"])
    assert main([*command, *more, option, "f"]) == 0
    assert (folder / "f").read_text() != "yesterday"


@pytest.mark.parametrize("option", ["--report", "--junit", "--perfetto", "--trace"])
def test_output_that_is_a_link_is_refused_before_the_work(
    folder: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (folder / "mine").write_text("mine")
    (folder / "f").symlink_to("mine")
    assert main([*RUN, option, "f"]) == 2
    assert "f: is a link, which is not followed" in capsys.readouterr().err
    assert (folder / "mine").read_text() == "mine"


def test_one_file_for_two_outputs_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--report", "f", "--junit", "./f"]) == 2
    assert "f: is given for two outputs" in capsys.readouterr().err


def test_trace_replaces_the_earlier_one_and_keeps_its_permissions(folder: Path) -> None:
    (folder / "t").write_text("yesterday")
    (folder / "t").chmod(0o600)
    assert main([*RUN, "--no-report", "--trace", "t"]) == 0
    assert main(["show", "t"]) == 0
    assert (folder / "t").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (r'"a\0b"', "'a\\x00b' is no file name"),
        ("loop", "'loop' is no file name"),
        ("pipe", "pipe: is a pipe that nothing writes to"),
    ],
)
def test_objects_in_what_is_no_file_are_refused_with_their_place(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    entry: str,
    why: str,
) -> None:
    monkeypatch.setattr(files, "WRITER_WAIT_MS", 1)
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "tiny.yaml").write_text(f"{SCENARIO}  objects: [{entry}]\n")
    assert main(["validate", "tiny.yaml"]) == 2
    assert f"tiny.yaml:8:13: {why}" in capsys.readouterr().err


@pytest.mark.parametrize(("tokens", "why"), [("/dev/zero", "has more than"), (".", "is a directory")])
def test_token_file_without_end_or_content_is_refused(
    capsys: pytest.CaptureFixture[str], tokens: str, why: str
) -> None:
    assert main(["serve", "--token-auth-file", tokens]) == 2
    assert f"{tokens}: " in (said := capsys.readouterr().err) and why in said
