"""What a shell completes behind `orrery`: names of scenarios, kinds of steps, daemons.

Turns the beginning of a word into the words that may be meant.  argcomplete calls a completer with
the word and arguments that are of no interest here; completing needs no import at other times.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SCENARIO_ENDINGS = ("*.yaml", "*.yml")

Completer = Callable[..., list[str]]


def complete_with(argument: argparse.Action, completer: Completer) -> None:
    """Let a shell complete an argument."""
    argument.completer = completer  # type: ignore[attr-defined]


def _beginning(words: Iterable[str], prefix: str) -> list[str]:
    return sorted(word for word in words if word.startswith(prefix))


def scenarios(prefix: str, **_: Any) -> list[str]:
    """Names of the scenarios of the package, and the files and folders of the user."""
    from sim.app.reference.shipped import scenario_files, scenarios_folder

    folder = Path(prefix).parent if not prefix.endswith("/") else Path(prefix)
    start = "" if folder == Path() else f"{folder.as_posix().rstrip('/')}/"
    files = [f"{start}{path.name}" for ending in SCENARIO_ENDINGS for path in folder.glob(ending)]
    folders = [f"{start}{path.name}/" for path in folder.glob("*/") if path.is_dir()]
    return _beginning([*(path.stem for path in scenario_files(scenarios_folder())), *files, *folders], prefix)


def steps(prefix: str, **_: Any) -> list[str]:
    """Kinds of steps of a timeline."""
    from sim.app.reference.steps import step_pages

    return _beginning(step_pages(), prefix)


def daemons(prefix: str, **_: Any) -> list[str]:
    """Daemons with options."""
    from sim.app.reference.options import DAEMONS

    return _beginning(DAEMONS, prefix)
