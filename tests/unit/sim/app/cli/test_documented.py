"""Every command that the documents show is one that the command line takes, of files that are
there.
"""

import re
import shlex
from pathlib import Path

import pytest

from sim.app.cli.main import _TEXTS as HELP
from sim.app.cli.main import _parser
from sim.texts import rows

ROOT = Path(__file__).resolve().parents[5]
DOCUMENTS = ("README.md", "FIDELITY.md", "BENCHMARKS.md", "scenarios/README.md", "tests/cluster/README.md")
COMMANDS = (
    "run",
    "sweep",
    "validate",
    "list",
    "import",
    "whatif",
    "up",
    "down",
    "serve",
    "certs",
    "snapshot",
    "why",
    "diff",
    "show",
)
NOTE = re.compile(r"\s{2,}\S.*$")  # the explanation beside a command


def shown() -> list[str]:
    """Commands on lines of their own, and the examples of each --help."""
    found = []
    for name in DOCUMENTS:
        text = re.sub(r"\s*\\\n\s*", " ", (ROOT / name).read_text(encoding="utf-8"))
        found += [
            NOTE.sub("", line.strip()) for line in text.splitlines() if line.strip().startswith("orrery ")
        ]
    for command in COMMANDS:
        epilog = subparser(command).epilog or ""
        found += epilog.removeprefix("examples: ").removeprefix("example: ").split("; ")
    return found


def subparser(name: str):  # type: ignore[no-untyped-def]
    (commands,) = (action.choices for action in _parser()._actions if action.dest == "command")
    return commands[name]


def test_there_are_commands_of_every_kind() -> None:
    assert len(shown()) > 20
    assert {command.split()[1] for command in shown()} >= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_argument_says_what_it_is(command: str) -> None:
    parser = subparser(command)
    assert parser.description and parser.epilog
    assert [action.dest for action in parser._actions if not action.help] == []


def test_each_text_of_the_help_is_that_of_an_argument() -> None:
    texts = rows(HELP)
    known = {command: arguments(command) for command in texts if command != "*"}
    known["*"] = set[str]().union(*known.values())
    unknown = {(name, key) for name, keys in texts.items() for key in keys if key not in known[name]}
    assert {(name, key) for name, key in unknown if key not in ("help", "description", "epilog")} == set()


def arguments(command: str) -> set[str]:
    """The long names of a command's arguments."""
    return {name for action in subparser(command)._actions for name in (*action.option_strings, action.dest)}


@pytest.mark.parametrize("command", dict.fromkeys(shown()))
def test_a_documented_command_is_understood(command: str) -> None:
    arguments = vars(_parser().parse_args(shlex.split(command)[1:]))
    scenario = arguments.get("scenario")
    if scenario is not None:
        assert (ROOT / scenario).is_file()
