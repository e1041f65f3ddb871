"""Audit events that requests of the simulation wait for, and the body of a request with events.

Turns the first event of a request into a call of the audit webhook through the kernel, so that a
replay takes its result from the journal.

Mirrors  kubernetes v1.25 apiserver plugin/pkg/audit/webhook/webhook.go (processEvents).
Differs  An event is sent once; upstream repeats it with growing delays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from sim.api.audit.delivery import cut_to
from sim.api.audit.settings import WebhookSettings
from sim.api.types import Obj
from sim.ident import Names
from sim.kernel import Kernel, OutsideAnswer, OutsideRequest
from sim.options.apiserver.audit import WEBHOOK
from sim.units import SECOND

TIMEOUT_S = 30.0  # webhook.go: defaultRequestTimeout
OK, MULTIPLE_CHOICES = 200, 300


def event_list(batch: Sequence[Obj], names: Names) -> bytes:
    """The body of a request with events."""
    items = [{k: event[k] for k in event if k not in ("kind", "apiVersion")} for event in batch]
    version = names.api_version("audit", "v1")
    return msgspec.json.encode({"kind": "EventList", "apiVersion": version, "metadata": {}, "items": items})


class Posting:
    """Sends events that requests of the simulation wait for."""

    def __init__(self, kernel: Kernel, settings: WebhookSettings, names: Names, url: str) -> None:
        self._kernel, self._settings, self._names, self._url = kernel, settings, names, url

    def __call__(self, event: Obj, done: Callable[[bool], None]) -> None:
        """Send an event; `done` gets False if it is not taken."""
        cut = cut_to(event, self._settings.event_max, self._names)
        if cut is None:
            done(True)
            return
        headers = (("Content-Type", self._names.media_json),)
        body = event_list([cut], self._names)
        timeout_us = int(TIMEOUT_S * SECOND)
        request = OutsideRequest("POST", self._url, headers, body, timeout_us=timeout_us, receiver=WEBHOOK)

        def take(answer: OutsideAnswer) -> None:
            done(not answer.failure and OK <= answer.code < MULTIPLE_CHOICES)

        self._kernel.outside.call(request, take)
