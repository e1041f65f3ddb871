#!/usr/bin/env python3
"""Set this checkout up and use it, on a machine that has nothing but Python 3.11 or newer.

    python3 dev.py show [SCENARIO] [ARGUMENTS]   run a scenario (default: scenarios/zone-outage.yaml) and show its picture
    python3 dev.py test [ARGUMENTS]              run the tests
    python3 dev.py check                         run linter, type checker and the layer contracts
    python3 dev.py build                         build wheel and sdist reproducibly, in out/dist
    python3 dev.py orrery ARGUMENTS              run the orrery command

The environment is made in .venv from requirements.lock on first use, and again when the lock
changes.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
HOME = Path(os.environ.get("ORRERY_VENV", ROOT / ".venv"))
SHOWN = "scenarios/zone-outage.yaml"
BIN = HOME / ("Scripts" if os.name == "nt" else "bin")


def set_up() -> None:
    """Make the environment unless it is there and of this lock."""
    wanted = [(ROOT / name).read_bytes() for name in ("requirements.lock", "pyproject.toml")]
    digest = hashlib.sha256(b"".join(wanted)).hexdigest()
    mark = HOME / "orrery-lock"
    if mark.exists() and mark.read_text() == digest:
        return
    print(f"setting up {HOME.name} (once)", file=sys.stderr, flush=True)
    venv.create(HOME, with_pip=True, clear=False)
    pip = [str(BIN / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements.lock")], check=True)
    # The packages that build Orrery are in the lock: an isolated build would fetch others.
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], check=True)
    mark.write_text(digest)


def run(*command: str, where: Path | None = ROOT) -> int:
    """Run a command of the environment, in the checkout or where the user is (None)."""
    with subprocess.Popen([str(BIN / command[0]), *command[1:]], cwd=where) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                pass  # which the command has had too, and answers


def commit_epoch() -> dict[str, str]:
    """The variable SOURCE_DATE_EPOCH: that of the environment, or the time of the last commit.

    Empty in a folder without a history.
    """
    if "SOURCE_DATE_EPOCH" in os.environ:
        return {"SOURCE_DATE_EPOCH": os.environ["SOURCE_DATE_EPOCH"]}
    command = ["git", "log", "-1", "--format=%ct"]
    try:
        committed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return {}
    return {"SOURCE_DATE_EPOCH": committed.stdout.strip()} if committed.stdout.strip() else {}


def build(python: str, root: Path, folder: Path, epoch: dict[str, str]) -> int:
    """Build the wheel and the sdist of a checkout, and print their SHA-256.

    Equal sources and an equal epoch give equal bytes: times, modes and order of the files do not
    count.
    """
    command = [python, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(
        command, cwd=root, env={**os.environ, **epoch}, stdout=subprocess.PIPE, check=False
    )
    if built.returncode == 0:
        for file in sorted(folder.iterdir()):
            print(hashlib.sha256(file.read_bytes()).hexdigest(), file.name)
    return built.returncode


def main(arguments: list[str]) -> int:
    if sys.version_info < (3, 11):  # noqa: UP036  (an older Python runs this file)
        print("orrery needs Python 3.11 or newer", file=sys.stderr)
        return 2
    what, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if what not in ("show", "test", "check", "build", "orrery"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        set_up()
    except subprocess.CalledProcessError as error:
        # of venv; pip has said it
        said = (error.output or b"see above").decode(errors="replace").strip()
        print(f"the environment cannot be set up: {said}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if what == "show":
        return run("orrery", "run", *rest, where=None) if rest else run("orrery", "run", SHOWN)
    if what == "test":
        # Cores share the suite file by file: it takes a quarter of an hour of one core.
        return run("python", "-m", "pytest", *(rest or ["-n", "auto", "--dist", "loadfile"]))
    if what == "build":
        return build(str(BIN / "python"), ROOT, ROOT / "out" / "dist", commit_epoch())
    if what == "orrery":
        return run("orrery", *rest, where=None)
    checks = (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",), ("lint-imports",))
    return max(run(*check) for check in checks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
