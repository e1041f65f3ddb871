"""The public names of the library."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import sim

PUBLIC = ["Cluster", "InputError", "Lab", "__version__", "hunt", "load", "run_plan", "served", "study"]


def test_public_names_are_these_and_no_others() -> None:
    assert sorted(sim.__all__) == PUBLIC
    assert dir(sim) == PUBLIC


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("Cluster", "sim.app.cluster"),
        ("InputError", "sim.errors"),
        ("load", "sim.scenario.compile"),
        ("run_plan", "sim.app.run"),
        ("served", "sim.app.serving.serve"),
        ("study", "sim.app.study.many"),
    ],
)
def test_public_name_is_the_one_of_its_home(name: str, home: str) -> None:
    assert getattr(sim, name) is getattr(import_module(home), name)


def test_unknown_name_is_refused_with_the_public_names() -> None:
    with pytest.raises(AttributeError, match="public names: Cluster"):
        sim.Clusters  # noqa: B018


def test_importing_the_package_imports_nothing_above_it() -> None:
    code = "import sys, sim; print(sorted(m for m in sys.modules if m.startswith(('sim.', 'actors'))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['sim.version']"
