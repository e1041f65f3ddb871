"""The last stage: a reply becomes an answer in the form that was asked for, or a stream.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/{response,watch}.go.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from functools import partial
from http import HTTPStatus

import trio
from msgspec.structs import replace

from sim.ident import Names
from sim.options.features.gates import COMPRESSION
from sim.wire.exchange import OPENED, Response
from sim.wire.http.chain.request import COMMON, HttpRequest, response_of
from sim.wire.http.chain.threads import INLINE_MAX, on_thread
from sim.wire.http.forms import negotiation, rendering
from sim.wire.http.forms.rendering import PART_MAX, Answer, EventWriter, SharedEvents, View
from sim.wire.http.gateway import Gateway, OutsideWatch
from sim.wire.http.measures.counts import Counts
from sim.wire.http.streams import OutsideStream
from sim.wire.http.upgraded import STREAMED, log_protocols

# Bytes of a resource above which it is compressed (writers.go).
COMPRESSED_FROM = 128 * 1024
ITEM_BYTES = 1024  # about as much is one object of a list


class Answering:
    """The stage.  gates: feature gates with another value than their default"""

    def __init__(
        self,
        names: Names,
        gateway: Gateway,
        counts: Counts,
        gates: Collection[str],
        threads: trio.CapacityLimiter,
    ) -> None:
        self._names = names
        self._gateway = gateway
        self._counts = counts
        self._compressed_from = 0 if COMPRESSION in gates else COMPRESSED_FROM
        self._threads = threads
        self._shared = SharedEvents()

    def __call__(self, request: HttpRequest) -> Response | Awaitable[Response]:
        """The answer.  Raises NotAcceptable."""
        reply, view, watch = request.reply, request.view, request.watch
        if watch is not None:
            return self._watched(request, watch)
        if request.body.warnings and reply.ok:
            reply.warnings += request.body.warnings
        request.warned = reply.warnings
        if reply.ok:
            rendering.check_form(view, reply)
        elif view.form.kind:  # an error takes no other form
            header, pretty = request.header("accept"), view.form.pretty
            view = replace(view, form=negotiation.error_form(self._names, header, pretty))
        prepared = rendering.prepare(view, reply)
        # YAML is printed node by node, some 8 us each.
        if reply.items and view.form.media == self._names.media_yaml:
            if len(reply.items) * ITEM_BYTES > INLINE_MAX:
                return self._slowly(request, prepared)
        return self._finish(request, prepared())

    async def _slowly(self, request: HttpRequest, prepared: Callable[[], Answer]) -> Response:
        return self._finish(request, await on_thread(prepared, self._threads))

    def _finish(self, request: HttpRequest, answer: Answer) -> Response:
        response, streamed = response_of(answer), request.exchange.extensions.get(STREAMED)
        if streamed is not None and request.target.subresource == "log" and answer.code == HTTPStatus.OK:
            streamed.extend(log_protocols(self._names))
        elif request.reply.stream is None:
            response.compressed_from = self._compressed_from
        if request.reply.stream is not None:
            request.audited.stream()
            request.exchange.extensions[OPENED].append(request.reply.stream.stop)
            response.body = _parts(request.reply.stream)
        return response

    def _watched(self, request: HttpRequest, watch: OutsideWatch) -> Response:
        extensions, query = request.exchange.extensions, request.attributes
        request.audited.stream()
        self._counts.streams_by(query, 1)
        extensions[OPENED] += watch.stop, partial(self._counts.streams_by, query, -1)
        return self._stream(request.view, watch, extensions.get(STREAMED))

    def _stream(self, view: View, watch: OutsideWatch, streamed: list[str] | None) -> Response:
        """Sends a watch.  streamed: of a request over WebSocket, see `upgraded`"""
        writer = EventWriter(view, self._shared)
        if streamed is not None:
            streamed.append(writer.media)

        async def lines() -> AsyncGenerator[bytes, None]:
            while events := await watch.take():
                size = 0
                # Of a WebSocket, one event a message.
                for part in writer.parts(
                    events, self._gateway.wall_us(), PART_MAX if streamed is None else 0
                ):
                    size += len(part)
                    yield part
                self._counts.sent(view.resource, len(events), size)

        return Response(200, lines(), [("Content-Type", writer.media), COMMON])


async def _parts(stream: OutsideStream) -> AsyncGenerator[bytes, None]:
    """The bytes of a stream with one channel."""
    while came := await stream.take():
        yield b"".join(data for _, data in came)
