"""dev.py: the environment is asked for the command, where its user is."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    lock = b"".join((ROOT / name).read_bytes() for name in ("requirements.lock", "pyproject.toml"))
    (home / "orrery-lock").write_text(hashlib.sha256(lock).hexdigest())
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
