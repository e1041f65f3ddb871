"""`orrery serve` that notes the length of its pieces of work, during which other clients wait.

python -m tests.bench.pieces FILE serve ...

A piece is what one task of Trio does between two of its waits, or one call in C that keeps the lock
of the interpreter on any thread.  All requests wait for these.  Writes also wait for what is done
aside (`sim.kernel.aside`) in one unit of work: up to the next rest of a part.

The length is processor time, so that a busy machine makes no piece longer.  Each piece above
`NOTED_MS` is a line of FILE: the requests that wait (`all` or `writes`), and milliseconds.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time, sleep, thread_time
from typing import Any

import trio

from sim.app.cli import main as cli
from sim.kernel import aside
from sim.pauses import Parts

Note = Callable[[str, float], None]  # the requests that wait, and milliseconds
NOTED_MS = 20.0
LOOK_S = 0.002  # of the thread that looks for calls that keep the lock


class Pieces(trio.abc.Instrument):
    """Notes the pieces of the thread on which Trio runs."""

    def __init__(self, note: Note) -> None:
        self._note, self._began_s = note, 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began_s = thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._note("all", 1000 * (thread_time() - self._began_s))


def watch_lock(note: Note) -> None:
    """Notes the processor time that passes before this thread gets the lock: more than the
    interpreter's interval of switching only if a call in C keeps it.
    """
    while True:
        began_s = process_time()
        sleep(LOOK_S)
        note("all", 1000 * (process_time() - began_s))


def noted(note: Note) -> type[Parts]:
    """`Parts` with a note of each part."""

    class Noted(Parts):
        began_s = 0.0

        def __init__(self, work: Callable[[], Any]) -> None:
            def timed() -> Any:
                self.began_s = thread_time()
                try:
                    return work()
                finally:
                    self.end()

            super().__init__(timed)

        def rest(self) -> None:
            self.end()
            super().rest()
            self.began_s = thread_time()

        def end(self) -> None:
            note("writes", 1000 * (thread_time() - self.began_s))

    return Noted


def main() -> None:
    path = Path(sys.argv.pop(1))

    def note(waiting: str, ms: float) -> None:
        if ms >= NOTED_MS:
            with path.open("a") as file:
                file.write(f"{waiting} {ms:.1f}\n")

    setattr(aside, "Parts", noted(note))  # noqa: B010
    run: Any = trio.run
    trio.run = partial(run, instruments=[Pieces(note)])
    threading.Thread(target=watch_lock, args=(note,), daemon=True).start()
    cli.main()


if __name__ == "__main__":
    main()
