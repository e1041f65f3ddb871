"""Addresses of connections to servers, and the failures of Go's dialer.  Pure.

Turns a URL into the host and the port of its connection, or into the reason why there is none.

Mirrors  golang net/http transport.go (canonicalAddr), net/dial.go, net/ipsock.go (JoinHostPort),
         net/lookup.go (LookupPort) at go1.19.
"""

from __future__ import annotations

from sim.api.crd.urls import BadUrl, Url, parse_url
from sim.api.schema.json_text import go_quote

PORTS = {"http": 80, "https": 443}
PORT_MAX, PORT_DIGITS_MAX = 65535, 5


class DialError(Exception):
    """No connection is possible; the message is Go's."""


def place_of(url: Url) -> tuple[str, int]:
    """Host and port of the connection for a URL.  Raises DialError.

    Port 0 is a port as any other: nothing listens there.
    """
    if url.scheme not in PORTS:
        raise DialError(f"unsupported protocol scheme {go_quote(url.scheme)}")
    if not url.host:
        raise DialError("http: no Host in request URL")
    port = url.port
    if not port:
        return url.hostname, PORTS[url.scheme]
    digits = port.lstrip("0") or "0"
    if len(digits) > PORT_DIGITS_MAX or int(digits) > PORT_MAX:
        raise DialError(f"dial tcp: address {port}: invalid port")
    return url.hostname, int(digits)


def joined(host: str, port: int) -> str:
    """Host and port as one text."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def refused(host: str, port: int) -> str:
    """The failure of a connection that nothing accepts."""
    return f"dial tcp {joined(host, port)}: connect: connection refused"


def refusal_at(text: str) -> str:
    """The failure of a connection to a URL where nothing listens."""
    try:
        return refused(*place_of(parse_url(text)))
    except (BadUrl, DialError) as error:
        return str(error)
