"""The audit settings of an API server, as values."""

from __future__ import annotations

import msgspec

from sim.api.audit.delivery import Batching
from sim.api.audit.policy import Policy
from sim.options.apiserver.audit import JSON


class LogSettings(msgspec.Struct, frozen=True):
    """The log.

    path: "" for no log, "-" for standard output
    age_max_days, backups_max: bounds of the older files, 0 for none
    size_max: bytes of a file, after which the next one begins
    compresses: older files are compressed
    event_max: bytes of an event, above which its objects are left out; 0 for no bound
    """

    path: str = ""
    form: str = JSON
    age_max_days: int = 0
    backups_max: int = 0
    size_max: int = 100 << 20
    compresses: bool = False
    batching: Batching = Batching()
    event_max: int = 0


class WebhookSettings(msgspec.Struct, frozen=True):
    """The webhook.  config: the file that names it, "" for none; backoff_us: before the first retry"""

    config: str = ""
    backoff_us: int = 10_000_000
    batching: Batching = Batching()
    event_max: int = 0


class AuditSettings(msgspec.Struct, frozen=True):
    """Policy and backends."""

    policy: Policy
    log: LogSettings = LogSettings()
    webhook: WebhookSettings = WebhookSettings()
