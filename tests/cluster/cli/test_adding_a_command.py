"""The recipe "A command" of CONTRIBUTING, carried out on a copy of the sources.

The command `orrery zones SCENARIO` prints the zones of a scenario's nodes.  It is one new module,
one name in the list of groups, its texts, and one name in the sections of the help.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.cli.copied_sources import ROOT, copy_sources, orrery

COMMAND = '''\
"""`orrery zones`: the zones of a scenario, one line each."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import EXIT_OK, add_scenario

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands


def add(commands: Commands) -> None:
    """Add the parser of the command."""
    parser = commands.add_parser("zones")
    add_scenario(parser)
    parser.set_defaults(call=_zones)


def _zones(arguments: argparse.Namespace) -> int:
    from sim.scenario.compile import load

    plan = load(arguments.scenario, arguments.set)
    for zone in sorted({node.zone for node in plan.cluster.nodes}):
        print(zone)
    return EXIT_OK
'''


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = copy_sources(tmp_path_factory.mktemp("sources"))
    commands = copy / "sim" / "app" / "cli" / "commands"
    (commands / "zones.py").write_text(COMMAND)
    registry = commands / "__init__.py"
    text = registry.read_text().replace("    whatif,\n", "    whatif,\n    zones,\n", 1)
    registry.write_text(text.replace("    trace.add,\n", "    trace.add,\n    zones.add,\n"))
    with (commands.parent / "help.txt").open("a") as texts:
        texts.write("\nzones\nhelp: list the zones of a scenario\ndescription: List the zones.\n")
    main = commands.parent / "main.py"
    main.write_text(main.read_text().replace('("faults", ', '("faults", "zones", ', 1))
    return copy


@pytest.mark.slow
def test_added_command_is_called_with_its_arguments(sources: Path) -> None:
    listed = orrery(sources, "zones", ROOT / "scenarios" / "zone-outage.yaml")
    assert (listed.returncode, listed.stdout.split()) == (0, ["a", "b", "c"]), listed.stderr


@pytest.mark.slow
def test_added_command_is_in_its_section_of_the_help(sources: Path) -> None:
    section = orrery(sources, "--help").stdout.split("look up:")[1]
    assert "zones       list the zones of a scenario" in section


@pytest.mark.slow
def test_bad_input_of_an_added_command_exits_with_two(sources: Path) -> None:
    refused = orrery(sources, "zones", "zone-outag")
    assert refused.returncode == 2
    assert "zone-outag: there is no such file" in refused.stderr
