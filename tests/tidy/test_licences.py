"""The locks name each package with hashes, and LICENSES.md each package with its licence."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
RUN_LOCK = ROOT / "requirements-run.lock"
BUILD_LOCK = ROOT / "requirements-build.lock"
CLASSIFIERS = {
    "MIT License": "MIT",
    "BSD License": "BSD",
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


def entries(lock: Path) -> dict[str, str]:
    """The entries of a lock: name of the package, and the text of all its lines."""
    texts = re.split(r"^(?=\S)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {text.partition("==")[0]: text for text in texts if text}


def table() -> dict[str, tuple[str, bool]]:
    """The rows of LICENSES.md: package, its licence, and whether Orrery needs it to run."""
    text = (ROOT / "LICENSES.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (.+?) \| (run )?\|$", text, re.MULTILINE)
    return {name: (licence, bool(run)) for name, licence, run in rows}


@pytest.mark.parametrize("lock", [LOCK, RUN_LOCK, BUILD_LOCK], ids=lambda lock: lock.name)
def test_each_package_of_a_lock_has_a_version_and_hashes(lock: Path) -> None:
    loose = [name for name, text in entries(lock).items() if "==" not in text or "--hash=sha256:" not in text]
    assert len(entries(lock)) > 5
    assert loose == []


def test_smaller_locks_are_parts_of_the_whole_lock() -> None:
    def pinned(lock: Path) -> set[str]:
        return {text.split()[0] for text in entries(lock).values()}

    assert pinned(RUN_LOCK) < pinned(LOCK) > pinned(BUILD_LOCK)


def test_table_has_one_row_for_each_package_of_the_lock() -> None:
    run = entries(RUN_LOCK)
    assert {name: runs for name, (_, runs) in table().items()} == {
        name: name in run for name in entries(LOCK)
    }


def test_licences_of_the_table_are_those_of_the_packages() -> None:
    """An SPDX expression must be equal; a classifier names the family of licences only."""
    checked, wrong = 0, []
    for name, (licence, _) in table().items():
        try:
            metadata = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # a package of other systems or Python versions
        expression = metadata.get("License-Expression")
        classes = [line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier") or []]
        families = [CLASSIFIERS[line] for line in classes if line in CLASSIFIERS]
        if expression:
            checked += 1
            wrong += [name] if licence != expression else []
        elif families:
            checked += 1
            wrong += [name] if any(family not in licence for family in families) else []
    assert checked > 100
    assert wrong == []


def test_notices_of_what_a_wheel_contains_are_there() -> None:
    charts = (ROOT / "sim/report/charts/notices.txt").read_text(encoding="utf-8")
    fields = (ROOT / "LICENSES/kubernetes.txt").read_text(encoding="utf-8")
    assert "University of Washington Interactive Data Lab" in charts
    assert "Mike Bostock" in charts
    assert "Kubernetes" in fields
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in fields
