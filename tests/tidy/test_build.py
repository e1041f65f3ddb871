"""`dev.py build`: equal sources give equal bytes of the wheel and the sdist."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
EPOCH = {"SOURCE_DATE_EPOCH": "1600000000"}


def dev() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copied(folder: Path) -> Path:
    """The checkout's tracked files elsewhere, with other times and modes."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in reversed(listed.stdout.rstrip("\0").split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        target.chmod(0o600)
        os.utime(target, (1_000_000_000, 1_000_000_000))
    return folder


@pytest.mark.slow
def test_two_builds_of_equal_sources_give_equal_bytes(tmp_path: Path) -> None:
    build = dev().build
    roots = {"checkout": ROOT, "copy": copied(tmp_path / "sources")}
    built = {}
    for name, root in roots.items():
        assert build(sys.executable, root, tmp_path / name, EPOCH) == 0
        built[name] = {file.suffix: file.read_bytes() for file in (tmp_path / name).iterdir()}
    assert sorted(built["checkout"]) == [".gz", ".whl"]
    assert built["checkout"] == built["copy"]
    with tarfile.open(next((tmp_path / "checkout").glob("*.gz"))) as archive:
        assert {member.mtime for member in archive} == {1_600_000_000}


def test_epoch_of_a_build_is_the_time_of_the_last_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    command = ["git", "show", "--no-patch", "--format=%ct", "HEAD"]
    committed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert dev().commit_epoch() == {"SOURCE_DATE_EPOCH": committed.strip()}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "7")
    assert dev().commit_epoch() == {"SOURCE_DATE_EPOCH": "7"}
