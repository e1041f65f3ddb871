#!/usr/bin/env python3
"""Set this checkout up and use it, on a machine that has nothing but Python 3.11 or newer.

    python3 dev.py show [SCENARIO] [ARGUMENTS]   run a scenario (default: scenarios/zone-outage.yaml) and show its picture
    python3 dev.py orrery ARGUMENTS              run the orrery command
    python3 dev.py build                         build wheel and sdist reproducibly, in out/dist
    python3 dev.py test [ARGUMENTS]              run the tests
    python3 dev.py check                         run linter, type checker and the layer contracts
    python3 dev.py nightly [SEED]                run mutants and long loops (hours of one core)
    python3 dev.py docs                          build the site of the documentation, in out/site

The environment is made in .venv on first use, and again when a lock changes.  The first three
commands install what runs and builds Orrery, the others all of requirements.lock.  The environment
has the Python that runs this file, or one of the same version that is built to be faster, if the
machine has one; ORRERY_PYTHON names another.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
HOME = Path(os.environ.get("ORRERY_VENV", ROOT / ".venv"))
SHOWN = "scenarios/zone-outage.yaml"
BIN = HOME / ("Scripts" if os.name == "nt" else "bin")
INTERPRETER = ROOT / "sim" / "app" / "process" / "interpreter.py"
# The locks that a command needs: what runs and builds Orrery, or all.
RUN = ("requirements-run.lock", "requirements-build.lock")
ALL = ("requirements.lock",)
COMMANDS = {"show": RUN, "orrery": RUN, "build": RUN, "test": ALL, "check": ALL, "nightly": ALL, "docs": ALL}
CHECKS = (("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",), ("lint-imports",))
# What runs at night, each with a seed that is drawn or given: what differs from night to night.
NIGHTLY = (
    ("tests.bench.decision_mutants", "--seed"),
    ("tests.bench.mutants", "--sample", "60", "--seed"),
    ("tests.bench.outside_fuzz", "--answers", "2000", "--seed"),
    ("tests.bench.sessions", "--sessions", "40", "--seed"),
    ("tests.bench.fast_plain", "--seed"),
)
SCENARIOS = (
    *("-m", "pytest", "tests/cluster/cli/test_scenarios.py", "tests/cluster/cli/test_notebooks.py"),
    *("tests/property", "-q"),
)
# What pip says of a package's file: its name, and its size if it comes by the network.
FETCHED = re.compile(r"\s*(?:Downloading|Using cached|Processing) (?:\S*/)?([^\s/]+)(.*)")


def set_up(locks: tuple[str, ...]) -> None:
    """Make the environment, unless it is there and has the packages of these locks."""
    if (HOME / "orrery-lock").exists() and digest(locks) in (HOME / "orrery-lock").read_text().split():
        return
    if not (BIN / "python").exists():
        python = chosen_python()
        say(f"setting up {HOME.name} (once)")
        if python == sys.executable:
            venv.create(HOME, symlinks=os.name != "nt", with_pip=False)
        else:
            subprocess.run([python, "-m", "venv", "--without-pip", str(HOME)], check=True)
    pip("--require-hashes", *(word for lock in locks for word in ("-r", str(ROOT / lock))))
    # The packages that build Orrery are in each set of locks: an isolated build would fetch others.
    pip("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    # All packages include those of a run.
    (HOME / "orrery-lock").write_text("\n".join(digest(one) for one in {locks, RUN}))


def chosen_python() -> str:
    """The Python of the environment: this one, or a faster one of the same version."""
    if "ORRERY_PYTHON" in os.environ:
        return os.environ["ORRERY_PYTHON"]
    line = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if build_of(sys.executable) != f"{line} False":
        return sys.executable
    slow = "Python is built without profile-guided optimization: runs take up to 1.7 times as long"
    folders = [*os.get_exec_path(), "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"]
    for managed in (".local/share/uv/python", ".pyenv/versions"):
        folders += [str(folder) for folder in sorted(Path.home().glob(f"{managed}/*/bin"))]
    for folder in folders:
        other = str(Path(folder) / f"python{line}")
        if os.access(other, os.X_OK) and build_of(other) == f"{line} True":
            say(f"this {slow}; taking {other}")
            return other
    say(f"this {slow}; no other Python {line} is here (see CONTRIBUTING.md)")
    return sys.executable


def build_of(python: str) -> str:
    """The version of a Python, and whether it is built with the guidance of a profile; "" if it
    cannot run.
    """
    try:
        asked = subprocess.run([python, "-I", str(INTERPRETER)], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return asked.stdout.strip()


def digest(locks: tuple[str, ...]) -> str:
    """What the environment is made from, for these locks."""
    texts = [(ROOT / name).read_bytes() for name in (*locks, "pyproject.toml")]
    return hashlib.sha256(b"".join(texts)).hexdigest()


def pip(*arguments: str) -> None:
    """Install packages into the environment, and say which one is being fetched.

    The pip of this Python does it for the environment, which has none: to install one takes as
    long as a third of all else.  Modules are compiled when they are first imported.
    """
    command = [sys.executable, "-m", "pip", "--python", str(BIN / "python")]
    if importlib.util.find_spec("pip") is None:
        subprocess.run([str(BIN / "python"), "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
        command = [str(BIN / "python"), "-m", "pip"]
    command += ["install", "--no-compile", "--disable-pip-version-check", "--progress-bar=off", *arguments]
    said = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if news := progress(line):
                say(news, passing=True)
    if process.returncode != 0:
        say("".join(line for line in said if line.startswith("ERROR")) or "".join(said[-20:]))
        raise subprocess.CalledProcessError(process.returncode, command)


def progress(line: str) -> str:
    """What a line of pip means to its user: the package that is fetched, and its size; or ""."""
    if found := FETCHED.match(line):
        size = re.search(r"\(([\d.]+ [kMG]B)\)", found[2])
        return f"fetching {found[1]}" + (f", {size[1]}" if size else "")
    if line.startswith("Installing collected packages"):
        return f"installing {line.count(',') + 1} packages"
    return ""


def say(text: str, passing: bool = False) -> None:
    """Write a line; on a terminal, the next line replaces one that is `passing`."""
    if not sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)
        return
    width = shutil.get_terminal_size().columns - 1
    print(
        f"\r\x1b[K{text[:width] if passing else text}",
        end="" if passing else "\n",
        file=sys.stderr,
        flush=True,
    )


def run(*command: str, where: Path | None = ROOT) -> int:
    """Run a command of the environment, in the checkout or where the user is (None)."""
    with subprocess.Popen([str(BIN / command[0]), *command[1:]], cwd=where) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                pass  # which the command has had too, and answers


def nightly(seed: str) -> int:
    """Run the mutants, the random loops and all scenarios under many seeds; print how each ended.

    Returns 1 if the loops or tests failed; mutants that survive are no failure.
    """
    os.environ |= {"ORRERY_SCENARIO_SEEDS": "10", "ORRERY_NIGHTLY": "1"}
    ended = {what[0]: run("python", "-m", *what, seed) for what in NIGHTLY}
    ended["scenarios and properties"] = run("python", *SCENARIOS)
    for what, code in ended.items():
        print(f"nightly, seed {seed}: {what} ended with {code}", flush=True)
    return int(any(code for what, code in ended.items() if not what.endswith("mutants")))


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
    if what not in COMMANDS:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        set_up(COMMANDS[what])
    except subprocess.CalledProcessError as error:
        print(f"the environment cannot be set up: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    if what == "show":
        return run("orrery", "run", *rest, where=None) if rest else run("orrery", "run", SHOWN)
    if what == "test":
        # Cores share the suite file by file, the quick unit tests last.  Tests of daemons wait for
        # other processes: one more than there are cores keeps these busy.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        shared = ["-n", str(cores + 1), "--dist", "loadfile", "--no-loadscope-reorder"]
        return run("python", "-m", "pytest", *(rest or shared))
    if what == "build":
        return build(str(BIN / "python"), ROOT, ROOT / "out" / "dist", commit_epoch())
    if what == "orrery":
        return run("orrery", *rest, where=None)
    if what == "nightly":
        return nightly(rest[0] if rest else str(int(time.time()) // 86_400))
    if what == "docs":
        return run("python", "-m", "mkdocs", "build", *rest)
    return max(run(*check) for check in CHECKS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
