"""`orrery run --live`: the live page and the control API of a run.

Turns the steering of a run into a server beside it, as `orrery serve` has one, up to a signal after
its end.

Holds: nothing of the server enters the run by itself (no keys, no authorities, no roles, no calls
of servers outside), so that a run that is only watched has the trace of one without a page. What a
user does enters at the gate, and is in the trace.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from sim.api.auth.keys import SigningKey
from sim.app.process.garbage import collect_when_idle
from sim.app.process.interrupts import ending_signals
from sim.app.process.printed import tell
from sim.app.serving.data_dir import Keys
from sim.app.serving.front import Own, make_entrance
from sim.app.serving.journal import Session
from sim.app.serving.serve import LOCAL, served
from sim.app.steering.assembly import make_steering
from sim.wire.authority import Authority

if TYPE_CHECKING:
    from sim.app.control.session import Control
    from sim.app.serving.configs.clients import ClientConfig

SLICE_S = 0.002  # of a simulation that serves clients


@asynccontextmanager
async def live(
    session: Session, pace: float, port: int, configs: Sequence[ClientConfig], control: Control
) -> AsyncIterator[None]:
    """Serve a run that takes place within, and its end until a signal comes.  Raises InputError.

    session: the scenario and its settings
    pace: virtual seconds for each real second; 0: time rests until a user lets it pass
    """
    cluster = control.cluster
    cluster.kernel.slice_s = SLICE_S
    keys = Keys(Authority(cluster.names.component("ca")), SigningKey.new(), fresh=False)
    steering = make_steering(control, session.document, None)
    own = Own(steering, make_entrance(cluster), keys, enters=False)
    async with served(cluster, configs, pace or 1.0, (LOCAL[1], port), own=own) as url:
        tell(f"live page, for one login: {url}/#code={steering.page.code()}")
        if pace:
            control.resume()
        else:
            tell("time rests until the page, a key or orrery ctl resumes it")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect_when_idle, lambda: cluster.clients.works)
            yield
            with trio.open_signal_receiver(signal.SIGINT, *ending_signals()) as signals:
                tell("the run has ended: Ctrl-C ends its page")
                await anext(signals)
            nursery.cancel_scope.cancel()
