"""What several commands share: exit statuses, arguments, and their checks."""

from __future__ import annotations

import argparse
from pathlib import Path

from sim.errors import InputError

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130


def add_scenario(parser: argparse.ArgumentParser, optional: bool = False) -> None:
    parser.add_argument(
        "scenario",
        type=Path,
        metavar="SCENARIO",
        nargs="?" if optional else None,
        help="a scenario file (YAML)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a value of the file, e.g. cluster.nodes[0].count=6 or timeline.outage.at=3m (repeatable)",
    )


def add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed", type=seed, metavar="N", help="seed of all randomness (default: the scenario's)"
    )


def seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 1 << 53:
        raise argparse.ArgumentTypeError("a seed is a whole number from 0 to 2^53 - 1")
    return value


def count(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 20_000:
        raise argparse.ArgumentTypeError("a number of nodes from 0 to 20000")
    return value


def writable(file: Path | None) -> None:
    if file is not None and not file.parent.is_dir():
        raise InputError(f"there is no folder {file.parent}", str(file))
