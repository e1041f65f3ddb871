"""A terminal for tests: a command in a pseudo-terminal of its own, its keys, and what it shows."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from sim.app.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
# The same as a job in the background of its terminal.
BEHIND = """
import fcntl, subprocess, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
command = [sys.executable, "-m", "sim.app.cli.main", *sys.argv[1:]]
sys.exit(subprocess.run(command, process_group=0).returncode)
"""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LIMIT_S = 60.0


class Terminal:
    """A command in a terminal."""

    def __init__(self, command: subprocess.Popen[bytes], master: int, slave: int) -> None:
        self.command, self.raw = command, ""
        self._master, self._slave = master, slave
        self._at = 0

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def until(self, pattern: str) -> re.Match[str]:
        """Read until the terminal has shown a pattern since the last call; its match."""
        end_s = time.monotonic() + LIMIT_S
        while True:
            going = self._read()
            text = ESCAPES.sub("", self.raw[self._at :])
            if found := re.search(pattern, text):
                self._at = len(self.raw)
                return found
            assert going and time.monotonic() < end_s, text[-3000:]

    def ended(self) -> int:
        """Read until the command has ended; its exit status."""
        end_s = time.monotonic() + LIMIT_S
        while self._read():
            assert time.monotonic() < end_s, self.raw[-3000:]
        return self.command.wait(LIMIT_S)

    def modes(self) -> list[Any]:
        """The settings of the terminal."""
        return termios.tcgetattr(self._slave)

    def _read(self) -> bool:
        """Take what is written within a moment; False if the command has ended and said all."""
        over = self.command.poll() is not None
        if select.select([self._master], [], [], 0 if over else 0.1)[0]:
            self.raw += os.read(self._master, 1 << 16).decode(errors="replace")
            return True
        return not over


@contextmanager
def terminal(
    folder: Path, *words: str, columns: int = 110, lines: int = 40, program: str = PROGRAM
) -> Iterator[Terminal]:
    """A command of orrery in a terminal of this size."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    command = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True, cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""},
    )  # fmt: skip
    try:
        yield Terminal(command, master, slave)
    finally:
        command.kill()
        command.wait()
        os.close(master)
        os.close(slave)
