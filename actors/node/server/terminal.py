"""A terminal between a client and a process: echo, lines, signals, ends of lines.

Turns what a client types into lines for a process, and what processes write into what a terminal
shows.

Mirrors  termios(3) with the flags that a new terminal has (ICANON, ECHO, ISIG, ICRNL, ONLCR).
Differs  programs cannot change the flags.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.node.programs.process import Process, Signal
from actors.node.server.peer import ChannelEnd, Peer
from sim.api.streams import STDOUT

LINE_MAX = 4096  # of a line that has not ended (Linux N_TTY_BUF_SIZE)
INTERRUPT, END, QUIT, ERASE, KILL = 0x03, 0x04, 0x1C, 0x7F, 0x15
SIGNALS = {INTERRUPT: Signal.INT, QUIT: Signal.QUIT}


class TerminalEnd(ChannelEnd):
    """The descriptor of a process that leads to a terminal."""

    __slots__ = ()

    def __init__(self, peer: Peer, closed: Callable[[], None]) -> None:
        super().__init__(peer, STDOUT, closed)
        self.terminal = True

    def write(self, data: bytes) -> int:
        """Send what there is room for, with carriage returns."""
        taken = data[: (self._peer.free + 1) // 2]
        if self._peer.ended:
            return len(data)
        self._peer.send_line(STDOUT, taken.replace(b"\n", b"\r\n"))
        return len(taken)


class Terminal:
    """The input of a terminal.  process: what was started on it"""

    def __init__(self, send: Callable[[bytes], None], peer: Peer) -> None:
        """send: takes lines for the process; b"": the end"""
        self._send, self._peer = send, peer
        self._line = bytearray()
        self.process: Process | None = None

    def type(self, data: bytes) -> None:
        """Take what a client types."""
        for byte in data:
            if byte in SIGNALS:
                self._show(b"^" + bytes([byte + 64]))
                self._line.clear()
                self._signal(SIGNALS[byte])
            elif byte == END:
                line = bytes(self._line)
                self._line.clear()
                self._send(line)
            elif byte in (ERASE, KILL):
                for _ in range(len(self._line) if byte == KILL else min(1, len(self._line))):
                    self._line.pop()
                    self._show(b"\b \b")
            elif byte in b"\r\n":
                self._show(b"\n")
                line = bytes(self._line) + b"\n"
                self._line.clear()
                self._send(line)
            elif len(self._line) < LINE_MAX:
                self._line.append(byte)
                self._show(bytes([byte]))

    def _show(self, data: bytes) -> None:
        self._peer.send(STDOUT, data.replace(b"\n", b"\r\n"))

    def _signal(self, number: Signal) -> None:
        """Signal the process and its children, except process 1 of a container."""
        first = self.process
        if first is None:
            return
        for process in first.table.processes:
            of = process
            while of.parent is not None:
                of = of.parent
            if of is first:
                first.table.signal(process, number)
