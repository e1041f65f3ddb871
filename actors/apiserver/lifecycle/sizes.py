"""Which requests may take long: those of much content, and those about large objects.

Holds: the answer depends on the requests of a run alone, so that a replay does the same work aside.
"""

from __future__ import annotations

from sim.api.crd.served import CustomResource
from sim.api.types import Reply
from sim.api.verbs.call import Call

# Bytes: a request of less takes some milliseconds.
LARGE = 16 * 1024
KEYS_MAX = 4096


class Sizes:
    """What one server knows about the sizes of objects."""

    def __init__(self) -> None:
        self._large: dict[str, None] = {}  # storage keys, the oldest first

    def is_large(self, call: Call) -> bool:
        """True if a write may take long."""
        request, resource = call.request, call.resource
        if request.verb in ("get", "list", "watch"):
            return False
        body = request.body
        if isinstance(body, bytes | bytearray):
            # A JSON patch can copy what it copied before.
            if len(body) > LARGE or (request.verb == "patch" and b'"copy"' in body):
                return True
        if isinstance(resource, CustomResource) and resource.is_demanding:
            return True
        return request.verb == "deletecollection" or call.key in self._large

    def note(self, call: Call, reply: Reply) -> None:
        """Keep in mind how large the object of an answered write is."""
        item = reply.item
        if item is None:
            return
        if call.size > LARGE:
            self._large[item.key] = None
            if len(self._large) > KEYS_MAX:
                del self._large[next(iter(self._large))]
        elif item.key in self._large and (call.size or call.request.verb == "delete"):
            del self._large[item.key]
