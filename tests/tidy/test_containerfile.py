"""The Containerfile copies files that exist, all that the wheel is built from, and runs as a user."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES = [
    line.split()
    for line in (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def copied() -> list[str]:
    """The sources of the instructions COPY that come from the checkout."""
    return [
        source
        for word, *rest in LINES
        if word == "COPY" and not rest[0].startswith("--from=")
        for source in rest[:-1]
    ]


def test_sources_of_the_image_exist() -> None:
    assert copied() and [source for source in copied() if not (ROOT / source).exists()] == []


def test_image_copies_all_that_the_wheel_is_built_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    about = project["project"]
    licences = [name.partition("/")[0] for name in about["license-files"]]
    needed = [*wheel["packages"], *wheel["force-include"], about["readme"], *licences]
    assert {*needed, "pyproject.toml", "requirements-build.lock"} <= {*copied()}


def test_base_image_has_a_bare_name_and_one_digest() -> None:
    images = [line[1] for line in LINES if line[0] == "FROM"]
    assert len(set(images)) == 1
    assert re.fullmatch(r"python:3\.\d+-slim@sha256:[0-9a-f]{64}", images[0])


def test_image_runs_the_command_as_a_user_without_privileges() -> None:
    last = {line[0]: line[1:] for line in LINES}
    assert last["ENTRYPOINT"] == ['["orrery"]']
    assert last["USER"] == ["orrery"]
