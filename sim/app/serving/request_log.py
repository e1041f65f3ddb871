"""The log of requests of a served cluster (`--log`): one line each, as text or as JSON.

Turns answered requests into lines, and lines into a file or the output, some times a second and on
a thread.

Holds: neither a slow disk nor a reader that has stopped lets the simulation or a client wait: of
more than `LINES_MAX` lines that wait to be written, the later ones are left out, and a line says
how many. What clients send cannot end a line or steer a terminal. A watch has its line when its
answer begins.

Mirrors  the fields of kubernetes v1.25 apiserver pkg/server/httplog/httplog.go (Log).
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import trio

from sim.app.process.printed import json_line, tell, visible
from sim.files import new_private, write_all
from sim.report.story import clock
from sim.units import Wall, format_micro_time
from sim.wire.http.chain.request import HttpRequest

LINES_MAX = 10_000
WRITE_S, LAST_S = 0.2, 2.0  # real seconds between two writes, and for the last one
AGENT_MAX = 200  # letters of a user agent; those of a path are bounded by the server
OUTPUT, FORMATS = "-", ("text", "json")
Obj = dict[str, Any]


class RequestLog:
    """The log of one server.  Raises InputError if its file cannot be made.

    place: of its file; "-" for the output
    form: one of FORMATS
    epoch_us: when virtual time began; wall_us: the present real time
    """

    def __init__(
        self, place: str, form: str, epoch_us: Wall, wall_us: Callable[[], Wall], *, force: bool = False
    ) -> None:
        self._file: int | None = _opened(place, force)
        self._line = _text if form == "text" else json_line
        self._epoch_us, self._wall_us = epoch_us, wall_us
        self._waiting: deque[Obj] = deque()
        self._left_out = 0
        self._thread = trio.CapacityLimiter(1)

    def note(self, request: HttpRequest, code: int, took_s: float) -> None:
        """Note a request that has been answered."""
        if len(self._waiting) >= LINES_MAX or self._file is None:
            self._left_out += 1
            return
        exchange, user = request.exchange, getattr(request, "user", None)
        query = f"?{exchange.query}" if exchange.query else ""
        self._waiting.append(
            {
                "time": format_micro_time(self._wall_us()),
                "virtual": clock(request.begun_us - self._epoch_us),
                "method": exchange.method,
                "path": exchange.path + query,
                "user": "" if user is None else user.name,
                "code": code,
                "ms": round(took_s * 1e3, 3),
                "agent": exchange.headers.get("user-agent")[:AGENT_MAX],
            }
        )

    async def run(self) -> None:
        """Write until it is cancelled, then what is left."""
        try:
            while self._file is not None:
                await trio.sleep(WRITE_S)
                await self._write()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + LAST_S):
                await self._write()
                if self._file is not None:
                    os.close(self._file)

    async def _write(self) -> None:
        lines = list(self._taken())
        if not lines or self._file is None:
            return
        data = "".join(lines).encode(errors="replace")
        try:
            await trio.to_thread.run_sync(
                write_all, self._file, data, limiter=self._thread, abandon_on_cancel=True
            )
        except OSError as error:
            self._file = None
            tell(f"the log of requests ends: {error.strerror}")

    def _taken(self) -> Iterator[str]:
        """The lines that wait, which wait no longer."""
        waiting, self._waiting = self._waiting, deque()
        for values in waiting:
            yield f"{self._line(values)}\n"
        if self._left_out:
            yield f"{self._line({'left_out': self._left_out})}\n"
            self._left_out = 0


def _opened(place: str, force: bool) -> int:
    """The descriptor of the file, or one of its own for the output."""
    return os.dup(sys.stdout.fileno()) if place == OUTPUT else new_private(Path(place), b"", force=force)


def _text(values: Obj) -> str:
    if "left_out" in values:
        return f"{values['left_out']} requests are left out: they came faster than they could be written"
    shown = "{time} {virtual} {method} {path} {code} {user} {ms:.3f}ms".format(
        **{**values, "user": values["user"] or "-"}
    )
    return visible(f'{shown} "{values["agent"]}"').replace("\n", "\u240a")
