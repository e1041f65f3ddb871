"""The stage that begins the audit of a request; a server without an audit does not compose it.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/filters/audit.go (WithAudit).
"""

from __future__ import annotations

from sim.api.audit.events import Record, unstored
from sim.wire.exchange import OPENED, Response
from sim.wire.http.chain.audited import HttpAudit
from sim.wire.http.chain.request import HttpRequest, Outcome, plain_text


class Audit:
    """The stage."""

    def __init__(self, audit: HttpAudit) -> None:
        self._audit = audit

    def __call__(self, request: HttpRequest) -> Outcome:
        """Opens the record of a request; it is refused if its first event has to be stored and is
        not.
        """
        exchange = request.exchange
        request.audited = audited = self._audit.open(exchange, request.attributes, request.user)
        record = audited.record
        if record is None:
            return None
        exchange.extensions.setdefault(OPENED, []).append(audited.close)
        return self._begin(record, exchange.path)

    async def _begin(self, record: Record, path: str) -> Response | None:
        return None if await self._audit.begin(record) else plain_text(500, f"{unstored(path)}\n")
