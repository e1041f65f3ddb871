"""Entry point of the console script: `sim.app.cli.main`, whose import can be interrupted like the
command itself.

It imports nothing else, because an interrupt before `main` is called could only end in a traceback.
"""

from __future__ import annotations

import sys

INTERRUPTED = 130  # as of a program that ends by SIGINT


def main() -> int:
    """Run the command; the exit status."""
    try:
        from sim.app.cli.main import main as command

        return command()
    except KeyboardInterrupt:
        print("orrery: interrupted", file=sys.stderr)
        return INTERRUPTED
