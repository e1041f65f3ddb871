"""An established connection between two hosts: messages in order, in both directions.

Turns messages that one side sends into calls at the other, after the delay of the link.

Holds: messages of one direction arrive in the order in which they were sent; while the link is cut
they wait, and after `LOST_US` of a cut both sides lose the connection; after an end nothing is
called any more.

Mirrors  golang net/dial.go, at go1.19: keep-alive probes, as the dialer of an API server has them.
Differs  a message has no size: a link has no bandwidth; after a cut everything is sent at once,
         where TCP waits for its retransmission timer. With `at_once`, over a link without a fault
         messages take no time, as replies to clients outside take none, so that they get through
         while time is paused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sim.kernel.network import Link
from sim.units import SECOND, Virtual

if TYPE_CHECKING:
    from sim.kernel.kernel import Kernel

LOST_US = 300 * SECOND  # the first keep-alive probe after 30 s, and nine more every 30 s
_End = Callable[[], None]


class Way:
    """One direction.  take: called with each message at its arrival"""

    def __init__(
        self, kernel: Kernel, link: Link, take: Callable[[Any], None], lost: _End, *, at_once: bool = True
    ) -> None:
        self._at_once = at_once
        self._kernel = kernel
        self._link = link
        self._take = take
        self._lost = lost
        self._waiting: deque[Any] = deque()
        self._last_us = kernel.now_us
        self._cut_us = -1
        self._closed = False
        link.listeners.append(self._settled)
        self._settled()

    def send(self, message: Any) -> None:
        """Send a message."""
        if not self._closed:
            self._waiting.append(message)
            self._push()

    def close(self) -> None:
        """Nothing is sent and nothing arrives from now on."""
        if not self._closed:
            self._closed = True
            self._waiting.clear()
            self._link.listeners.remove(self._settled)

    def _push(self) -> None:
        kernel, link = self._kernel, self._link
        while self._waiting and link.up:
            delay_us = 0 if self._at_once and link.clear else link.delay_at_us(kernel.now_us)
            self._last_us = at_us = Virtual(max(self._last_us, kernel.now_us + delay_us))
            kernel.timer_at(at_us, self._arrive, self._waiting.popleft())

    def _arrive(self, message: Any) -> None:
        if not self._closed:
            self._take(message)

    def _settled(self) -> None:
        """The link has changed, or is about to."""
        if self._link.up:
            self._cut_us = -1
            self._push()
        elif self._cut_us < 0:
            self._cut_us = self._kernel.now_us
            self._kernel.timer_at(self._cut_us + LOST_US, self._give_up, self._cut_us)

    def _give_up(self, cut_us: int) -> None:
        if not self._closed and self._cut_us == cut_us:
            self._lost()


class Connection:
    """Both directions, between a client and a server.

    to_server, to_client: take the messages at the two sides
    lost: called once when the connection breaks, but not when one side closes it
    at_once: True if messages take no time over a link without a fault
    """

    def __init__(
        self,
        kernel: Kernel,
        client: str,
        server: str,
        to_server: Callable[[Any], None],
        to_client: Callable[[Any], None],
        lost: _End,
        *,
        at_once: bool = True,
    ) -> None:
        self._lost = lost
        self.closed = False
        network = kernel.network
        self.up = Way(kernel, network.link(client, server), to_server, self.lose, at_once=at_once)
        self.down = Way(kernel, network.link(server, client), to_client, self.lose, at_once=at_once)

    def close(self) -> None:
        """End it at both sides at once."""
        self.closed = True
        self.up.close()
        self.down.close()

    def lose(self) -> None:
        """Break it."""
        if not self.closed:
            self.close()
            self._lost()
