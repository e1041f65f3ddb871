"""What a server with a data directory does first: repeat what the server before it did.

Turns a journal and a cluster at its beginning into the cluster at the end of the journal, as fast
as possible, and says on the error output how far it has come.

Holds: no client is served yet, so that the simulation need not rest for clients, and no garbage is
collected; neither changes what happens.
"""

from __future__ import annotations

import sys
from time import perf_counter

import trio

from sim.app.process.garbage import no_collection
from sim.app.serving.journal import Journal
from sim.errors import InputError
from sim.kernel import Comparison, Kernel
from sim.kernel.tasks import ALONE_S
from sim.units import SECOND, Virtual, format_duration

SHOWN_S = 2.0  # real seconds between two lines


async def repeat(kernel: Kernel, earlier: Journal) -> None:
    """Repeat what an earlier server did.  Raises InputError if it differs."""
    stop = f"its journal could not be written any more: {earlier.stop.why}" if earlier.stop else ""
    for note in filter(None, (earlier.note, stop)):
        print(f"orrery: {note}", file=sys.stderr)
    comparison = Comparison(earlier.checksums)
    comparison.follow(kernel.trace)
    last = earlier.operations[-1] if earlier.operations else None
    slice_s, kernel.slice_s = kernel.slice_s, ALONE_S
    async with trio.open_nursery() as nursery:
        if last is not None:
            nursery.start_soon(_tell, kernel, last.step, last.at_us)
        with no_collection():
            await kernel.run_until(Virtual(0) if last is None else last.at_us)
        nursery.cancel_scope.cancel()
    kernel.slice_s = slice_s
    comparison.finish()
    if comparison.differs_at or kernel.gate.replay:
        raise InputError("does not repeat as it was served: it cannot be continued", "--data-dir")


async def _tell(kernel: Kernel, steps: int, end_us: int) -> None:
    """Say now and then how far a repetition of so many units of work has come."""
    begun_s = perf_counter()
    while True:
        await trio.sleep(SHOWN_S)
        left_s = (perf_counter() - begun_s) * (steps - kernel.steps) / max(kernel.steps, 1)
        print(progress(kernel.steps / max(steps, 1), kernel.now_us, end_us, left_s), file=sys.stderr)


def progress(share: float, at_us: int, end_us: int, left_s: float) -> str:
    """A line about a repetition.  share: of its work; left_s: real seconds that the rest may take"""
    at, end = (format_duration(each // SECOND * SECOND) for each in (at_us, end_us))
    return f"orrery: repeating the time so far: {share:.0%}, {at} of {end}, some {max(left_s, 1):.0f} s left"
