"""The lines of an API server's log about its requests.

Mirrors  kubernetes v1.25 apiserver pkg/server/httplog/httplog.go (Log), from level 3 on.
Differs  a watch has its line when its answer begins; addresses of clients are without a port.
"""

from __future__ import annotations

import logging

from sim.units import SECOND, format_duration
from sim.wire.http.chain.request import HttpRequest

LOG = logging.getLogger(__name__)
LEVEL = 3  # of -v


def note(request: HttpRequest, code: int, took_s: float) -> None:
    """Log a request that has been answered."""
    exchange = request.exchange
    query = getattr(request, "attributes", None)
    values = {
        "verb": (exchange.method if query is None else query.verb).upper(),
        "URI": exchange.path + (f"?{exchange.query}" if exchange.query else ""),
        "latency": format_duration(round(took_s * SECOND)),
        "userAgent": exchange.headers.get("user-agent"),
        "audit-ID": exchange.ident,
        "srcIP": exchange.client,
        "resp": code,
    }
    LOG.info("HTTP", extra={"values": values})
