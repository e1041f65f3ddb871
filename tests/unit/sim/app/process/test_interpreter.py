"""How Python was built, by the variables that its build leaves behind."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from sim.app.process import interpreter
from sim.app.process.interpreter import profile_guided
from sim.version import __version__

FLAGS = {"PGO_PROF_GEN_FLAG": "-fprofile-generate", "PGO_PROF_USE_FLAG": "-fprofile-use -fprofile-correction"}


@pytest.mark.parametrize(
    ("variables", "guided"),
    [
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'", **FLAGS}, True),
        ({"CONFIG_ARGS": "'--prefix=/opt/python/3.11.7'", **FLAGS}, False),
        ({"CONFIG_ARGS": "'--prefix=/usr'", **FLAGS, "PGO_PROF_USE_FLAG": ""}, True),  # Debian 12
        ({"CONFIG_ARGS": ""}, False),
        ({}, None),  # Windows
    ],
)
def test_build_is_known_by_its_arguments_and_flags(variables: dict[str, str], guided: bool | None) -> None:
    assert profile_guided(variables) is guided


@pytest.mark.slow
def test_version_says_how_python_was_built() -> None:
    command = [sys.executable, "-m", "orrery", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = " ".join(said.split())
    python = f"{platform.python_implementation()} {platform.python_version()}"
    assert words == f"orrery {__version__} ({interpreter.described()})"
    assert python in words and "profile-guided optimization" in words
