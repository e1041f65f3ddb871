"""The first stage: path and query become what the request asks for, and its time-out is checked.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/filters/{requestinfo,request_deadline}.go.
Differs  `timeout=` counts in virtual and in real time: what ends first ends the request. A request
         that takes 60 real seconds is 504. `timeoutSeconds` of a watch is virtual.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from sim.api import status
from sim.api.auth.attributes import AccessAttributes
from sim.units import SECOND, parse_duration_us
from sim.wire.exchange import Response
from sim.wire.http import routing
from sim.wire.http.chain.request import HttpRequest, plain_text
from sim.wire.http.gateway import REQUEST_TIMEOUT_S
from sim.wire.http.refused import Refused

# Requests that are remembered, and letters of their paths and queries, at most.
KNOWN_MAX, KNOWN_LENGTH = 1024, 256


def find_information(request: HttpRequest) -> Response | None:
    """Notes path, query and attributes; a path with a broken escape is answered."""
    exchange = request.exchange
    short = len(exchange.path) + len(exchange.query) <= KNOWN_LENGTH
    found = (_known if short else _read)(exchange.method, exchange.path, exchange.query)
    if found is None:
        return plain_text(400, "400 Bad Request")
    request.path, request.options, request.attributes = found
    return None


def _read(method: str, raw: str, query: str) -> tuple[str, Mapping[str, str], AccessAttributes] | None:
    path = routing.decode_path(raw)
    if path is None:
        return None
    options = routing.parse_query(query)
    return path, options, routing.attributes(method, path, options)


_known = lru_cache(KNOWN_MAX)(_read)  # clients repeat most of their requests


def check_timeout(request: HttpRequest) -> None:
    """Raises Refused for a time-out that is no duration."""
    text = request.options.get("timeout", "")
    if text and request.attributes.verb != "watch":
        try:
            parse_duration_us(text)
        except ValueError as error:
            why = f"invalid timeout specified in the request URL - {error}"
            raise Refused(status.bad_request(why)) from None


def seconds_of(options: Mapping[str, str]) -> float:
    """How long a request may take in real time (parseTimeout)."""
    text = options.get("timeout", "")
    wanted = parse_duration_us(text) / SECOND if text else 0
    return wanted if 0 < wanted < REQUEST_TIMEOUT_S else REQUEST_TIMEOUT_S
