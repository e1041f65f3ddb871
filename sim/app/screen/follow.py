"""The live view of a running cluster in a terminal, with keys that steer its time.

Turns a steered cluster into views, some a second, each drawn in the place of the one before, and
keys into calls of its `Control`.

Holds: nothing of the run depends on it. It takes at most `SHARE` of the time, however large the
cluster is: the longer a view takes, the later comes the next. At rest nothing is drawn.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from time import perf_counter

import trio
from rich.console import Console
from rich.live import Live

from sim.api.store import Change
from sim.app.control.changes import event_row
from sim.app.control.session import Control
from sim.app.screen.keys import by_key, in_front, keep_by_key, keyboard, read_keys
from sim.app.screen.view import EVENTS_MAX, View, drawn
from sim.kernel import NEVER_US
from sim.units import Virtual

SHARE = 0.01  # of the time, for the view
REFRESH_S, SLOWEST_S = 0.1, 5.0  # real seconds between two views, at least and at most
PACE_MIN = 1 / 1024
FAST = 1024.0  # the pace beyond which `+` means as fast as possible


class Watched:
    """The views of one steered cluster.

    counts: the numbers of nodes and pods, as `Cluster.counts` gives them
    """

    def __init__(self, control: Control, counts: Callable[[], Mapping[str, int]], *, keys: bool) -> None:
        self._control, self._counts, self._keys = control, counts, keys
        self._changes: deque[Change] = deque(maxlen=EVENTS_MAX)
        self._step: tuple[Virtual, str] | None = None
        self._before = (perf_counter(), 0, 0, 0)
        control.cluster.observe(self._see, ["events"])
        control.cluster.do.on_step(self._occurred)

    def _see(self, change: Change) -> None:
        if not change.deleted:
            self._changes.append(change)

    def _occurred(self, name: str, kind: str, at_us: int) -> None:
        self._step = Virtual(at_us), f"{name} ({kind})"

    def view(self) -> View:
        """The present one; its rates are those since the one before."""
        control = self._control
        clock, counts, now_s = control.clock(noted=False), self._counts(), perf_counter()
        at_us, work, requests = clock["virtual_us"], clock["events"], clock["requests"]
        then_s, then_us, worked, requested = self._before
        self._before = now_s, at_us, work, requests
        took_s = max(now_s - then_s, 1e-9)
        current = ", ".join(clock["held_by"])
        end_us = control.end_us
        return View(
            control.plan.name,
            at_us,
            None if end_us >= NEVER_US else end_us,
            math.inf if clock["pace"] == "max" else clock["pace"],
            (at_us - then_us) / 1e6 / took_s,
            f"held by {current}" if current else "paused" if clock["paused"] else "",
            counts["nodes"],
            counts["ready"],
            counts["pods"],
            counts["running"],
            (requests - requested) / took_s,
            (work - worked) / took_s,
            tuple((one["name"], one["kind"], one["since_us"]) for one in clock["faults"]),
            self._step,
            tuple(_event(change) for change in reversed(self._changes)),
            tuple((one["state"], one["name"]) for one in control.judgements()),
            self._keys,
        )


def _event(change: Change) -> tuple[Virtual, str, str]:
    _, at_us, kind, reason, about, message, _ = event_row(change)
    return at_us, kind, f"{reason} {about}: {message.partition(chr(10))[0]}"


def next_pace(pace: float, key: str) -> float:
    """The pace after `+` or `-`."""
    if key == "+":
        return pace * 2 if pace * 2 <= FAST else math.inf
    return FAST if pace == math.inf else max(PACE_MIN, pace / 2)


async def press(control: Control, key: str) -> None:
    """Do what a key means, if it means something."""
    if key == " ":
        if control.paused:
            control.resume()
        else:
            await control.pause()
    elif key in ("+", "-"):
        control.set_pace(next_pace(control.cluster.kernel.rate, key))
    elif key == ".":
        await control.step(1)


async def follow(control: Control, console: Console, counts: Callable[[], Mapping[str, int]]) -> None:
    """Show a cluster until the key `q` is pressed; for ever without a keyboard."""
    fd = keyboard()
    watched = Watched(control, counts, keys=fd is not None)
    with ExitStack() as stack:
        if fd is not None:
            stack.enter_context(by_key(fd))
        display = stack.enter_context(Live(console=console, transient=True, auto_refresh=False))
        pressed = _Bell()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_draw, watched, display, console, pressed)
            if fd is None:
                return
            nursery.start_soon(keep_by_key, fd)
            while keys := await read_keys(fd):
                for key in keys:
                    if key == "q":
                        nursery.cancel_scope.cancel()
                        return
                    await press(control, key)
                pressed.ring()


class _Bell:
    """What wakes the view."""

    def __init__(self) -> None:
        self._rung = trio.Event()

    def ring(self) -> None:
        self._rung.set()
        self._rung = trio.Event()

    async def wait(self) -> None:
        await self._rung.wait()


async def _draw(watched: Watched, display: Live, console: Console, pressed: _Bell) -> None:
    shown: object = None
    while True:
        began_s = perf_counter()
        view, size = watched.view(), console.size
        if (view, size) != shown and in_front(console.file.fileno()):
            shown = view, size
            display.update(drawn(view, *size), refresh=True)
        took_s = perf_counter() - began_s
        with trio.move_on_after(min(SLOWEST_S, max(REFRESH_S, took_s / SHARE))):
            await pressed.wait()
