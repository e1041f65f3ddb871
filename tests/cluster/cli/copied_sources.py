"""A copy of the sources, to which a test adds what a contributor would add, and its command line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def copy_sources(folder: Path) -> Path:
    """Copy the packages `sim` and `actors` into a folder, with what is compiled of them."""
    for part in ("sim", "actors"):
        # A file of that name is being written, and gets another name.
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("*.pyc.*"))
    return folder


def add_line(file: Path, after: str, line: str) -> None:
    """Write a line into a file of the copy, below the only line that has the text `after`."""
    lines = file.read_text(encoding="utf-8").splitlines()
    (place,) = [number for number, text in enumerate(lines) if after in text]
    lines.insert(place + 1, line)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def orrery(sources: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line of the copy."""
    command: Sequence[str] = [sys.executable, "-m", "sim.app.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=sources, capture_output=True, text=True, timeout=120, check=False)
