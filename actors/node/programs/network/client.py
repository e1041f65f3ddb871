"""Requests over HTTP of processes of the cluster itself: of agents and of API servers.

Mirrors  golang net/http client.go, transport.go at go1.19: the texts of failures, redirections.
Differs  each request has a connection of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from actors.node.programs.network.dialer import DIAL_S, NotDialled, dialled
from actors.node.programs.network.fabric import Network
from actors.node.programs.network.http import HttpError, Request, Response, exchange, header
from actors.node.programs.network.resolver import is_address
from actors.node.programs.network.sockets import Address, SocketError
from actors.node.programs.network.tls import Trust
from actors.node.programs.waits import Wait
from sim.units import SECOND, go_quote

REDIRECTS = (301, 302, 303, 307, 308)
REDIRECTS_MAX = 10
LATE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"


class NotAnswered(Exception):
    """A request got no answer; the message is Go's."""


class Place(NamedTuple):
    """Where a request goes.  path: with the query"""

    host: str
    port: int
    path: str
    encrypted: bool = False

    @property
    def url(self) -> str:
        """As Go writes it."""
        return f"{'https' if self.encrypted else 'http'}://{Address(self.host, self.port)}{self.path}"

    def led(self, link: str) -> Place:
        """Where a redirection leads.  Raises ValueError."""
        url = urlsplit(urljoin(self.url, link))
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError(link)
        encrypted = url.scheme == "https"
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        return Place(url.hostname, url.port or (443 if encrypted else 80), path, encrypted)


def ask(
    network: Network,
    place: Place,
    request: Request,
    now_us: Callable[[], int],
    until_us: int | None,
    trust: Trust,
    connect_to: Address | None = None,
) -> Generator[Wait, None, Response]:
    """Send a request, and read the answer.  Raises NotAnswered without the name of the request.

    until_us: when to give up; None: never, but for the connection
    trust: of a place with TLS
    connect_to: where to connect, if that is not the place
    """
    target = connect_to or Address(place.host, place.port)
    if not is_address(target.host):
        raise NotAnswered(f"dial tcp: lookup {target.host}: no such host")
    begun_us = now_us()
    dial_us = min(
        begun_us + DIAL_S * SECOND, until_us if until_us is not None else begun_us + DIAL_S * SECOND
    )
    try:
        connection = yield from dialled(network, target, now_us, dial_us, trust if place.encrypted else None)
    except NotDialled as error:
        raise NotAnswered(LATE if until_us is not None and now_us() >= until_us else str(error)) from None
    try:
        return (yield from exchange(connection, request, now_us, until_us))
    except HttpError as error:
        raise NotAnswered("EOF" if "Empty reply" in error.text else error.text) from None
    except SocketError as error:
        if error.code == "ETIMEDOUT" and until_us is not None:
            raise NotAnswered(LATE) from None
        where = f"read tcp {connection.local}->{connection.peer}: read"
        raise NotAnswered(f"{where}: {error.text.lower()}") from None
    finally:
        connection.close()


def get(
    network: Network,
    place: Place,
    headers: tuple[tuple[str, str], ...],
    now_us: Callable[[], int],
    until_us: int | None = None,
    follows: Callable[[Place], bool] = lambda _: True,
) -> Generator[Wait, None, Response]:
    """GET with the redirections that follow.  Raises NotAnswered.

    headers: beside Host, which they may state
    follows: False for a place to which the client is not led
    """
    for _ in range(REDIRECTS_MAX):
        host = header(headers, "host") or str(Address(place.host, place.port))
        kept = (("Host", host), *(pair for pair in headers if pair[0].lower() != "host"))
        try:
            found = yield from ask(
                network, place, Request("GET", place.path, kept), now_us, until_us, Trust()
            )
        except NotAnswered as error:
            raise NotAnswered(f"Get {go_quote(place.url)}: {error}") from None
        link = header(found.headers, "location")
        if found.code not in REDIRECTS or not link:
            return found
        try:
            led = place.led(link)
        except ValueError:
            raise NotAnswered(
                f"Get {go_quote(place.url)}: failed to parse Location header {go_quote(link)}"
            ) from None
        if not follows(led):
            return found
        place = led
    raise NotAnswered(f"Get {go_quote(place.url)}: stopped after {REDIRECTS_MAX} redirects")
