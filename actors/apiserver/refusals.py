"""Trace records of requests that a server refuses, so that a story says what was in the way.

Turns a request and its reply into a record "refused": user, verb, key of the object, message.

Holds: a repeated refusal of the same request for the same reason is recorded once in ten minutes,
    so that retries of controllers do not fill the trace; the record changes nothing about the
    request and is no cause; conflicts, missing objects and limits of rates (404, 409, 429) are no
    refusals, and of reads only those that are forbidden are.
Differs  a create with a generated name is recorded under the prefix of the name.
"""

from __future__ import annotations

from actors.apiserver.handlers import READS
from actors.apiserver.ports import writer_of
from sim.api.types import Reply, Request
from sim.kernel import Kernel, Kind
from sim.units import SECOND

CODES, FORBIDDEN = (400, 403, 422, 500), 403
AGAIN_US = 600 * SECOND
KNOWN_MAX = 1_000
TEXT_MAX, NAME_MAX = 1_000, 253  # characters of a message and of a name from a body


class Refusals:
    """The refused requests of one server."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._kind: Kind | None = None  # declared by the first refusal: other traces stay the same
        # Reason and time of the last record, by user, verb and key.
        self._known: dict[tuple[str, str, str], tuple[str, int]] = {}

    def noted(self, request: Request, reply: Reply) -> Reply:
        """The reply, after its record."""
        self.note(request, reply)
        return reply

    def note(self, request: Request, reply: Reply) -> None:
        """Record a request of the simulation that is refused, unless it was not long ago."""
        if reply.code not in CODES or "dryRun" in request.options:
            return
        if reply.code != FORBIDDEN and request.verb in READS:
            return
        user, verb = writer_of(request)
        message = reply.message[:TEXT_MAX]
        key = f"/{request.group}/{request.resource}/{request.namespace}/{request.name or _name_of(request)}"
        reason = message.partition(" is forbidden: ")[2] or message
        now_us, known = self._kernel.now_us, self._known
        before = known.pop((user, verb, key), None)
        if before is not None and before[0] == reason and now_us - before[1] < AGAIN_US:
            known[user, verb, key] = before
            return
        if len(known) >= KNOWN_MAX:
            del known[next(iter(known))]
        known[user, verb, key] = reason, now_us
        if self._kind is None:
            self._kind = self._kernel.kind("refused", "user", "verb", "key", "message")
        self._kernel.record(self._kind, (user, verb, key, message))


def _name_of(request: Request) -> str:
    """The name, or the prefix of the generated name, of an object to create."""
    body = request.body if isinstance(request.body, dict) else {}
    meta = body.get("metadata")
    return (
        str(meta.get("name") or meta.get("generateName") or "")[:NAME_MAX] if isinstance(meta, dict) else ""
    )
