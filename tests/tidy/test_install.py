"""A plain installation of a checkout, in place or as a wheel, runs a scenario."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.report.charts.scripts import packed_scripts
from tests.tidy.test_build import copied

# What pip says when it cannot reach an index, or finds none of the packages there.
UNREACHABLE = ("NewConnectionError", "Could not find a version", "No matching distribution", "ReadTimeout")


def installed(python: Path, *what: str) -> None:
    """Install with the pip of this Python, or of the one that it was made from."""
    own = sys.executable if importlib.util.find_spec("pip") else sys._base_executable
    command = [own, "-m", "pip", "--python", str(python), "install", "--no-compile", *what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and any(sign in done.stderr for sign in UNREACHABLE):
        pytest.skip(f"NO INDEX OF PACKAGES CAN BE REACHED, the installation is not tested: {done.stderr}")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_plain_installations_find_their_schemas_and_scenarios(tmp_path: Path) -> None:
    sources, home = copied(tmp_path / "sources"), tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    for form in ([str(sources)], ["--no-deps", "--editable", str(sources)]):
        installed(python, *form)
        report = tmp_path / "report.html"
        command = [str(python.with_name("orrery")), "run", "single-node-death", "--report", str(report)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert packed_scripts() in report.read_text(encoding="utf-8")
        report.unlink()
        found = [str(python), "-c", "import sim; print(sim.__file__)"]
        home_of = subprocess.run(
            found, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        assert ("--editable" in form) == home_of.stdout.startswith(str(sources))
