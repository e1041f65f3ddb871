"""Requests that are answered at once, for callers outside of virtual time.

Turns a request that does not watch into its reply through the same authorization, verbs, admission
and store as any other request, without the delays of links and storage.  The library uses it for
calls between two runs of the clock.
"""

from __future__ import annotations

from actors.apiserver.ports import writer_of
from actors.apiserver.server import ApiServer
from sim.api.types import Reply, Request
from sim.api.verbs.call import Refusal, nested_too_deep


def ask(server: ApiServer, request: Request) -> Reply:
    """Serve a request at once on a running replica.

    Raises RuntimeError if a fault keeps the storage from answering at once.
    """
    storage, handlers = server.storage, server.handlers
    assert handlers is not None
    if not storage.prompt:
        raise RuntimeError(
            f"the storage is not healthy: {request.verb} {request.resource} would have to wait"
        )
    storage.writer = writer_of(request)
    try:
        steps = handlers.steps(handlers.call(request))
        op = next(steps)
        while True:
            op = steps.send(storage.store.apply(op))
    except StopIteration as stop:
        reply: Reply = stop.value
        return reply
    except Refusal as refusal:
        return refusal.reply()
    except RecursionError:
        return nested_too_deep().reply()
