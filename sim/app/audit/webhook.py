"""The audit webhook of a served cluster: batches of events go to a server by HTTP, in real time.

Turns events from inside the simulation into POST requests of an EventList, sent by a task beside
the simulation.

In the modes blocking and blocking-strict a request waits for its first event: one from outside for
`send_first`, one of the simulation for `Posting`: that answer enters by the gate of the kernel.
All other events are sent at once, one by one, and are not waited for.

Holds: in the mode batch the simulation never waits for the webhook; what waits is bounded, and
further events are dropped; a batch is sent again until the attempts are used up.

Mirrors  kubernetes v1.25 apiserver plugin/pkg/audit/{webhook,buffered}, pkg/util/webhook/webhook.go
         (WithExponentialBackoff: 5 attempts, factor 1.5, jitter 0.2).
Differs  batches are sent one after the other; there is no jitter.  An event that a request of the
         simulation waits for is sent once.
"""

from __future__ import annotations

import logging

import trio

from sim.api.audit.delivery import Batcher, cut_to
from sim.api.audit.settings import WebhookSettings
from sim.api.types import Obj
from sim.app.audit.posting import TIMEOUT_S, event_list
from sim.app.receivers import read_receiver
from sim.ident import Names
from sim.kernel import OutsideRequest
from sim.options.apiserver.audit import WEBHOOK
from sim.scenario.read.option_file import OptionFile
from sim.units import SECOND
from sim.wire.outside.calls import Exchanger
from sim.wire.patience import within

OK, MULTIPLE_CHOICES = 200, 300
ATTEMPTS, FACTOR = 5, 1.5  # webhook.go: DefaultRetryBackoffWithInitialDelay
END_S = 2.0  # real seconds for what waits when the server ends
LOG = logging.getLogger(__name__)


class Webhook:
    """The webhook of a cluster."""

    def __init__(self, settings: WebhookSettings, names: Names) -> None:
        self._settings = settings
        self._names = names
        self._receiver = read_receiver(OptionFile(WEBHOOK, settings.config))
        self._batcher = Batcher(settings.batching)
        self._more = trio.Event()
        self._client: Exchanger | None = None
        self.dropped = 0

    def put(self, event: Obj) -> None:
        """Keep an event until it is sent.  Called from inside the simulation; never waits."""
        cut = cut_to(event, self._settings.event_max, self._names)
        if cut is None or not self._batcher.add(cut, _now_us()):
            self.dropped += 1
            return
        self._more.set()

    async def run(self) -> None:
        """Send batches as they become due, until it is cancelled; then what waits."""
        client = self._client = Exchanger({WEBHOOK: self._receiver})
        try:
            while True:
                await self._wait()
                if batch := self._batcher.take(_now_us()):
                    await self._send(client, batch)
        finally:
            self._client = None
            with within(END_S, shield=True):
                for batch in self._batcher.take_rest():
                    await self._post(client, batch)
            client.close()

    async def _wait(self) -> None:
        """Return when a batch may be due."""
        self._more = trio.Event()
        now_us = _now_us()
        due_us = self._batcher.due_us(now_us)
        with trio.move_on_after(float("inf") if due_us is None else max(0.0, (due_us - now_us) / SECOND)):
            await self._more.wait()

    async def send_first(self, event: Obj) -> bool:
        """Send the first event of a request that waits for it; False if that fails."""
        cut = cut_to(event, self._settings.event_max, self._names)
        if cut is None or self._client is None:
            return cut is None
        return await self._send(self._client, [cut])

    async def _send(self, client: Exchanger, batch: list[Obj]) -> bool:
        pause_s = self._settings.backoff_us / SECOND
        for attempt in range(ATTEMPTS):
            if attempt:
                await trio.sleep(pause_s)
                pause_s *= FACTOR
            if await self._post(client, batch):
                return True
        self.dropped += len(batch)
        LOG.error("the audit webhook did not take %d events", len(batch))
        return False

    async def _post(self, client: Exchanger, batch: list[Obj]) -> bool:
        headers = (("Content-Type", self._names.media_json),)
        body = event_list(batch, self._names)
        request = OutsideRequest("POST", self._receiver.url, headers, body, receiver=WEBHOOK)
        answer = await client.exchange(request, TIMEOUT_S)
        if answer.failure:
            LOG.warning("the audit webhook cannot be reached: %s", answer.failure)
            return False
        return OK <= answer.code < MULTIPLE_CHOICES


def _now_us() -> int:
    return int(trio.current_time() * SECOND)
