"""Entry point of the console script: it imports `sim.app.cli.main` such that an interrupt of the
import is handled like one of the command.

It imports nothing else, because an interrupt before `main` is called could only end in a traceback.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130  # exit status of a program that SIGINT ended


def main() -> int:
    """Run the command; returns the exit status."""
    try:
        from sim.app.cli.main import main as command

        return command()
    except KeyboardInterrupt:
        print("orrery: interrupted", file=sys.stderr)
        return INTERRUPTED


def plugin() -> int:
    """Run `orrery ctl` as the plugin `kubectl orrery`; returns the exit status."""
    sys.argv.insert(1, "ctl")
    return main()
