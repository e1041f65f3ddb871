"""Requests that are answered at once, for callers outside of virtual time.

Turns a request that does not watch into its reply through the same authorization, verbs, admission
and store as any other request, without the delays of links and storage.  The library uses it for
calls between two runs of the clock.
"""

from __future__ import annotations

from actors.apiserver.handlers import Handlers
from actors.apiserver.ports import writer_of
from actors.apiserver.server import ApiServer
from sim.api.audit.events import unstored
from sim.api.refusals import Refusal, nested_too_deep
from sim.api.store import Consult
from sim.api.types import Reply, Request


def ask(server: ApiServer, request: Request, *, audited: bool = True) -> Reply:
    """Serve a request at once on a running replica.

    audited: True if the audit of the replica records it
    Raises RuntimeError if a fault keeps the storage from answering at once, or a webhook is called.
    """
    storage, life = server.storage, server.life
    assert life is not None
    if not storage.prompt:
        raise RuntimeError(
            f"the storage is not healthy: {request.verb} {request.resource} would have to wait"
        )
    audit = life.audit if audited else None
    record = None if audit is None else audit.begin(request)
    if audit is not None and record is not None and not audit.received(record):
        return Reply(500, body=unstored(record.uri))
    reply = _served(server, life.handlers, request)
    if audit is not None and record is not None:
        audit.answered(record, request, reply)
    return reply


def _served(server: ApiServer, handlers: Handlers, request: Request) -> Reply:
    storage = server.storage
    storage.writer = writer_of(request)
    try:
        steps = handlers.steps(handlers.call(request))
        op = next(steps)
        while True:
            if isinstance(op, Consult):
                raise RuntimeError(f"a webhook answers later: {request.verb} {request.resource} has to wait")
            op = steps.send(storage.store.apply(op))
    except StopIteration as stop:
        reply: Reply = stop.value
        return reply
    except Refusal as refusal:
        return refusal.reply()
    except RecursionError:
        return nested_too_deep().reply()
