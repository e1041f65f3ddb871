"""Bearer tokens of WebSocket clients: browsers cannot set headers, so the token is a subprotocol.

Mirrors  kubernetes v1.25 apiserver pkg/authentication/request/websocket/protocol.go,
         pkg/util/wsstream/conn.go (IsWebSocketRequest).
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.api.auth.web_tokens import decode
from sim.patterns import pattern

PROTOCOLS = "sec-websocket-protocol"
_UPGRADE = pattern(r"(^|.*,\s*)upgrade($|\s*,)")


def websocket_token(headers: Sequence[tuple[str, str]], prefix: str) -> tuple[str, str]:
    """The token of a WebSocket request and what is wrong with it; ("", "") if there is none.

    prefix: of the subprotocol that holds a token
    """
    first = {name: value.lower() for name, value in reversed(headers)}
    if not _UPGRADE.match(first.get("connection", "")) or first.get("upgrade") != "websocket":
        return "", ""
    values = [value for name, value in headers if name == PROTOCOLS]
    protocols = [protocol.strip() for value in values for protocol in value.split(",")]
    found = [each.removeprefix(prefix) for each in protocols if each.startswith(prefix)]
    if len(found) > 1:
        return "", "multiple base64.bearer.authorization tokens specified"
    if not found:
        return "", ""
    try:
        data = decode(found[0])
    except ValueError:
        return "", "invalid base64.bearer.authorization token encoding"
    try:
        token = data.decode()
    except UnicodeDecodeError:
        return "", "invalid base64.bearer.authorization token"
    if token and len(protocols) == 1:
        return "", "missing additional subprotocol"
    return token, ""
