"""The protocol in which a client and a node's agent speak, and the answer that says so.

Turns the headers of a request to exec, attach or portforward into a codec with the headers of the
answer 101, or into a refusal.

Mirrors  kubernetes v1.25 apiserver pkg/util/wsstream/conn.go (handshake); apimachinery
         pkg/util/httpstream/{httpstream.go,spdy/upgrade.go}; golang.org/x/net/websocket hybi.go;
         the protocols of v1.30: v5.channel, and SPDY within a WebSocket.
Differs  the API server has no protocol of its own: the agent knows those of later versions.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha1

from sim.api.aggregation.delegation import TOKEN_PROTOCOL
from sim.api.streams import ERROR, RESIZE, STDERR, STDIN, STDOUT, StreamRequest
from sim.dataclass import dataclass
from sim.wire.exchange import Exchange
from sim.wire.http.remote.spdy_streams import CommandStreams, PortStreams, SpdyStreams
from sim.wire.http.remote.tunnel import Tunnel
from sim.wire.http.remote.websocket_channels import WebSocketChannels

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 section 1.3
_TUNNEL = "SPDY/3.1+"
_OF_COMMANDS = ("v4.channel", "v3.channel", "v2.channel", "channel")  # over SPDY
_OF_PORTS = "portforward"
# Over WebSocket, as bytes and as base64.
_CHANNELS = (
    "channel",
    "base64.channel",
    "v4.channel",
    "v4.base64.channel",
    "v5.channel",
    "v5.base64.channel",
)
_PORT_CHANNELS = ("v4.channel", "v4.base64.channel", f"{_TUNNEL}{_OF_PORTS}")
VERSION_HEADER, ACCEPTED_HEADER = "X-Stream-Protocol-Version", "X-Accepted-Stream-Protocol-Versions"


@dataclass(frozen=True, slots=True)
class Agreed:
    """The answer 101.  plain: True if an error of a command is text and not a Status"""

    codec: WebSocketChannels | SpdyStreams | Tunnel
    headers: list[tuple[str, str]]
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Disagreed:
    """The answer where no protocol is common."""

    code: int
    text: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def agree(exchange: Exchange, request: StreamRequest, domain: str) -> Agreed | Disagreed:
    """The protocol for a request.  domain: with which the names of protocols end"""
    headers = exchange.headers
    if exchange.version.startswith("1.") and headers.get("upgrade").lower() == "websocket":
        return _over_websocket(exchange, request, domain)
    if exchange.version.startswith("1.") and "spdy/3.1" in headers.get("upgrade").lower():
        return _over_spdy(exchange, request, domain)
    return Disagreed(400, "unable to upgrade: missing upgrade headers in request")


def _values(exchange: Exchange, name: str) -> list[str]:
    """What a header that may be repeated lists."""
    given = (value for key, value in exchange.headers.pairs if key == name)
    return [one.strip() for value in given for one in value.split(",") if one.strip()]


def _over_websocket(exchange: Exchange, request: StreamRequest, domain: str) -> Agreed | Disagreed:
    asked = [one for one in _values(exchange, "sec-websocket-protocol") if not one.startswith(TOKEN_PROTOCOL)]
    names = _PORT_CHANNELS if request.kind == "portforward" else _CHANNELS
    known = [f"{name}.{domain}" for name in names]
    chosen = next((one for one in asked if one in known), None)
    if asked and chosen is None:
        return Disagreed(403)
    digest = sha1(
        (exchange.headers.get("sec-websocket-key") + _GUID).encode(), usedforsecurity=False
    ).digest()
    headers = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", b64encode(digest).decode()),
        *([("Sec-WebSocket-Protocol", chosen)] if chosen else []),
    ]
    name = chosen or ""
    if name.startswith(_TUNNEL):
        return Agreed(Tunnel(PortStreams()), headers)
    encoded = "base64." in name
    if request.kind == "portforward":
        if not request.ports:
            return Disagreed(400, 'query parameter "port" is required')
        return Agreed(WebSocketChannels(encoded=encoded, closes=False, ports=request.ports), headers)
    shown = STDOUT if request.stdout else STDERR if request.stderr else ERROR
    codec = WebSocketChannels(encoded=encoded, closes=name.startswith("v5."), shown=[shown])
    return Agreed(codec, headers, plain=not name.startswith(("v4.", "v5.")))


def _over_spdy(exchange: Exchange, request: StreamRequest, domain: str) -> Agreed | Disagreed:
    names = (_OF_PORTS,) if request.kind == "portforward" else _OF_COMMANDS
    known = [f"{name}.{domain}" for name in names]
    asked = _values(exchange, VERSION_HEADER.lower())
    chosen = next((one for one in asked if one in known), "")
    if asked and not chosen:
        text = (
            f"unable to upgrade: unable to negotiate protocol: client supports [{' '.join(asked)}], "
            f"server accepts [{' '.join(known)}]"
        )
        return Disagreed(403, text, tuple((ACCEPTED_HEADER, one) for one in known))
    headers = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
    if chosen:
        headers.append((VERSION_HEADER, chosen))
    if request.kind == "portforward":
        return Agreed(PortStreams(), headers)
    terminal = request.tty and chosen[:3] in ("v3.", "v4.")
    asks = {
        STDIN: request.stdin, STDOUT: request.stdout, STDERR: request.stderr and not request.tty,
        ERROR: True, RESIZE: terminal,
    }  # fmt: skip
    wanted = [channel for channel, wants in asks.items() if wants]
    return Agreed(CommandStreams(wanted), headers, plain=not chosen.startswith("v4."))
