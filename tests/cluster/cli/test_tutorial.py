"""The tutorial of the site, followed literally in an empty folder, with an installed wheel.

Each block of the page is carried out in its order: commands are run, files with a title are
written, a `diff` is applied to its file, and each line of a `text` block appears in the output of
the commands before it (numbers may differ, `…` is any text).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r'```(?P<language>\w+)(?: title="(?P<title>[^"]*)")?\n(?P<text>.*?)```', re.DOTALL)
WAIT_S = 120.0  # real seconds: far above what anything here takes


class Block(NamedTuple):
    """One block of the page."""

    language: str
    title: str
    text: str


def blocks() -> list[Block]:
    page = PAGE.read_text(encoding="utf-8")
    return [Block(found["language"], found["title"] or "", found["text"]) for found in BLOCK.finditer(page)]


def pattern_of(line: str) -> str:
    """A line of the page as a regular expression."""
    words = [
        re.sub(r"\d+", r"\\d+", re.escape(word)).replace("…", ".*").replace(r"\.\d+", r"[\d.]*")
        for word in line.split()
    ]
    return r"\s+".join(words)


def missing_lines(shown: str, output: str) -> list[str]:
    """The lines of a `text` block that are not in the output, in their order."""
    rest = iter(output.splitlines())
    return [
        line
        for line in shown.splitlines()
        if line.strip() and not any(re.fullmatch(pattern_of(line), each.strip()) for each in rest)
    ]


def changed(file: Path, difference: str) -> None:
    """Apply a block of removed and added lines; the removed ones occur once."""
    old = "".join(f"{line[1:]}\n" for line in difference.splitlines() if line.startswith("-"))
    new = "".join(f"{line[1:]}\n" for line in difference.splitlines() if line.startswith("+"))
    text = file.read_text()
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which `pip install` finds the built wheel, and needs no network.

    The dependencies are those of the interpreter that runs the test.
    """
    wheels = tmp_path / "wheels"
    # By the builder itself: an environment of dev.py has no pip.
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    home = tmp_path / "home"
    home.mkdir()
    options = dict.fromkeys(("PIP_NO_INDEX", "PIP_NO_DEPS", "PIP_FORCE_REINSTALL"), "1")
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {
        **inherited,
        **options,
        "PIP_FIND_LINKS": str(wheels),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PATH": f"{home / '.venv' / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "TERM": "dumb",
    }


@pytest.mark.slow
def test_tutorial_works_as_written(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "home"
    output = ""
    with ExitStack() as running:
        for block in blocks():
            if block.title == "second terminal":
                running.enter_context(served(block.text, folder, environment))
            elif block.language == "bash":
                output = ran(block.text, folder, environment)
                shared_packages(folder)
            elif block.language == "text":
                assert missing_lines(block.text, output) == [], output
            elif block.language == "diff":
                changed(folder / block.title, block.text)
            else:
                (folder / block.title).write_text(block.text)


def ran(text: str, folder: Path, environment: dict[str, str]) -> str:
    """The output of the commands of a block; `orrery run` may fail an expectation."""
    if "kubectl" in text and shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on this machine: the rest of the tutorial is not tested")
    done = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=WAIT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@contextmanager
def served(text: str, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """The server of the second terminal, from when it has written its client configuration."""
    command = f'{text.rstrip()} & trap "kill $!" TERM; wait'
    with subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE
    ) as server:
        try:
            assert server.stdout is not None
            assert b"serving" in server.stdout.readline()
            assert (folder / "out" / "config").is_file()
            yield
        finally:
            server.terminate()


def shared_packages(folder: Path) -> None:
    """Let the environment of the tutorial use the packages of this interpreter."""
    for packages in folder.glob(".venv/lib/python*/site-packages"):
        (packages / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")


def test_blocks_of_the_tutorial_are_of_known_languages() -> None:
    found = blocks()
    assert {block.language for block in found} <= {"bash", "text", "diff", "python"}
    assert all(block.title for block in found if block.language in ("diff", "python"))
    commands = {line.split()[1] for line in commands_of(found)}
    assert commands >= {"list", "init", "run", "why", "sweep", "serve"}


def commands_of(found: list[Block]) -> Iterator[str]:
    for block in found:
        if block.language == "bash":
            yield from (line for line in block.text.splitlines() if line.startswith("orrery "))


def test_missing_lines_accept_other_numbers_and_refuse_other_words() -> None:
    output = "other\nholds  noticed   14.48s   30.00s to 50.00s\ntrace: x-1\n"
    assert missing_lines("holds noticed 7.1s 30.00s to 50.00s\ntrace: …\n", output) == []
    assert missing_lines("FAILS noticed 7.1s 30.00s to 50.00s\n", output) != []
