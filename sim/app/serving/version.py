"""The body of /version: the simulated release, and the program that simulates it.

Mirrors  apimachinery v1.25 pkg/version/types.go, component-base version/base.go (fields and their
         forms).
Differs  the fields describe this program: gitCommit is a digest of its sources, as the commit is
         not known where it runs, so that gitTreeState is "archive", upstream's word for sources
         without their history; goVersion and compiler name the Python that runs it, and buildDate
         is the time of the newest source file.
"""

from __future__ import annotations

import platform
from functools import lru_cache

from sim.app.study.outcome import program_digest, program_files
from sim.units import SECOND, format_time

MAJOR, MINOR = "1", "25"
GIT_VERSION = "v1.25.16+orrery"  # the last patch of the release
COMMIT_LETTERS = 40
ARCHITECTURES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64"}  # Go's names


@lru_cache(maxsize=1)
def version() -> dict[str, str]:
    """The fields of /version."""
    newest_s = max(int(file.stat().st_mtime) for file in program_files())
    machine = platform.machine()
    return {
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": GIT_VERSION,
        "gitCommit": program_digest()[:COMMIT_LETTERS],
        "gitTreeState": "archive",
        "buildDate": format_time(newest_s * SECOND),
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{ARCHITECTURES.get(machine, machine)}",
    }
