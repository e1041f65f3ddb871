"""Options of the API server for its audit: the policy and the two backends, log and webhook.

Turns the `audit-*` options into fields of `AuditFlags`, the base of the API server's options.

Holds: an option of a backend that is not named, or of batches that are not made, is refused.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/audit.go.
Differs  a policy without a backend, and a backend without a policy, are refused; upstream starts
         and records nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.dataclass import dataclass
from sim.errors import InputError
from sim.ident import Names
from sim.options.base import (
    Check,
    Reader,
    at_least,
    boolean,
    duration,
    file_name,
    long_integer,
    more_than,
    number,
    one_of,
    option,
    string,
)

POLICY, LOG, WEBHOOK = "audit-policy-file", "audit-log-path", "audit-webhook-config-file"
BATCH, BLOCKING, STRICT = "batch", "blocking", "blocking-strict"
MODES = (BATCH, BLOCKING, STRICT)
JSON, LEGACY = "json", "legacy"
FORMATS = (JSON, LEGACY)


# The options that both backends have, by the rest of their names: reader, effect, check.
_SHARED: Mapping[str, tuple[Reader, str, Check | None]] = {
    "version": (string, "group and version of events: v1 is the only one", None),
    "batch-buffer-size": (long_integer, "events that wait; further ones are dropped", more_than(0)),
    "batch-max-size": (long_integer, "events of a batch", more_than(0)),
    "batch-max-wait": (
        duration,
        "time until a batch that is not full is delivered; of the webhook, in real time",
        None,
    ),
    "batch-throttle-enable": (boolean, "true: batches have a rate", None),
    "batch-throttle-qps": (number, "batches a second on average", None),
    "batch-throttle-burst": (long_integer, "batches at once after a pause", None),
    "truncate-enabled": (boolean, "true: an event that is too large loses its objects", None),
    "truncate-max-event-size": (long_integer, "bytes of an event", more_than(0)),
    "truncate-max-batch-size": (
        long_integer,
        "bytes of a batch: the bound of those of an event, since each event is cut before batches are made",
        None,
    ),
}


def _shared(backend: str, name: str, default: object) -> Any:
    """An option that both backends have."""
    read, effect, check = _SHARED[name]
    return option(f"audit-{backend}-{name}", read, default, check=check, effect=effect)


@dataclass(frozen=True)  # without slots: it is one of several bases
class AuditFlags:
    """The options of the audit."""

    audit_policy_file: str = option(POLICY, file_name, "")

    audit_log_path: str = option(LOG, string, "")
    audit_log_format: str = option("audit-log-format", string, JSON, check=one_of(*FORMATS))
    audit_log_version: str = _shared("log", "version", "")
    audit_log_maxage_days: int = option("audit-log-maxage", long_integer, 0, check=at_least(0))
    audit_log_maxbackup: int = option("audit-log-maxbackup", long_integer, 0, check=at_least(0))
    audit_log_maxsize_mb: int = option("audit-log-maxsize", long_integer, 0, check=at_least(0))
    audit_log_compress: bool = option("audit-log-compress", boolean, False)
    audit_log_mode: str = option("audit-log-mode", string, BLOCKING, check=one_of(*MODES))
    audit_log_batch_buffer_size: int = _shared("log", "batch-buffer-size", 10_000)
    audit_log_batch_max_size: int = _shared("log", "batch-max-size", 1)
    audit_log_batch_max_wait_us: int = _shared("log", "batch-max-wait", "0s")
    audit_log_batch_throttle_enable: bool = _shared("log", "batch-throttle-enable", False)
    audit_log_batch_throttle_qps: float = _shared("log", "batch-throttle-qps", 0)
    audit_log_batch_throttle_burst: int = _shared("log", "batch-throttle-burst", 0)
    audit_log_truncate_enabled: bool = _shared("log", "truncate-enabled", False)
    audit_log_truncate_max_event_size: int = _shared("log", "truncate-max-event-size", 100 << 10)
    audit_log_truncate_max_batch_size: int = _shared("log", "truncate-max-batch-size", 10 << 20)

    audit_webhook_config_file: str = option(WEBHOOK, file_name, "")
    audit_webhook_version: str = _shared("webhook", "version", "")
    audit_webhook_initial_backoff_us: int = option(
        "audit-webhook-initial-backoff", duration, "10s", check=more_than(0)
    )
    audit_webhook_mode: str = option("audit-webhook-mode", string, BATCH, check=one_of(*MODES))
    audit_webhook_batch_buffer_size: int = _shared("webhook", "batch-buffer-size", 10_000)
    audit_webhook_batch_max_size: int = _shared("webhook", "batch-max-size", 400)
    audit_webhook_batch_max_wait_us: int = _shared("webhook", "batch-max-wait", "30s")
    audit_webhook_batch_throttle_enable: bool = _shared("webhook", "batch-throttle-enable", True)
    audit_webhook_batch_throttle_qps: float = _shared("webhook", "batch-throttle-qps", 10)
    audit_webhook_batch_throttle_burst: int = _shared("webhook", "batch-throttle-burst", 15)
    audit_webhook_truncate_enabled: bool = _shared("webhook", "truncate-enabled", False)
    audit_webhook_truncate_max_event_size: int = _shared("webhook", "truncate-max-event-size", 100 << 10)
    audit_webhook_truncate_max_batch_size: int = _shared("webhook", "truncate-max-batch-size", 10 << 20)

    @property
    def audited(self) -> bool:
        """True if there are a policy and a backend."""
        return bool(self.audit_policy_file and (self.audit_log_path or self.audit_webhook_config_file))


# --- rules between options ------------------------------------------------------------------------


def check_audit(
    flags: AuditFlags,
    given: Mapping[str, object],
    names: Names,
    place: str,
    places: Mapping[str, str] | None,
) -> None:
    """Refuse options without an effect, and values that upstream refuses.  Raises InputError."""
    asked = {name.removeprefix("--"): (places or {}).get(name, place) for name in given}
    asked = {name: where for name, where in asked.items() if name.startswith("audit-")}
    if flags.audit_policy_file and not flags.audited:
        raise InputError(f"option {POLICY} has no effect without a backend", asked[POLICY], f"set {LOG}")
    for backend, named in (("log", LOG), ("webhook", WEBHOOK)):
        own = [name for name in asked if name.startswith(f"audit-{backend}-")]
        if own and named not in asked:
            raise InputError(f"option {own[0]} has no effect without {named}", asked[own[0]])
        if own and not flags.audit_policy_file:
            raise InputError(f"option {own[0]} has no effect without {POLICY}", asked[own[0]])
        if own:
            _check_backend(flags, backend, names, asked)


def _value(flags: AuditFlags, backend: str, name: str) -> Any:
    return getattr(flags, f"audit_{backend}_{name}")


def _check_backend(flags: AuditFlags, backend: str, names: Names, asked: Mapping[str, str]) -> None:
    """The rules of validateBackendBatchOptions and AuditTruncateOptions.Validate."""
    start = f"audit-{backend}-"
    batched = _value(flags, backend, "mode") == BATCH
    throttled = _value(flags, backend, "batch_throttle_enable")
    cut = _value(flags, backend, "truncate_enabled")
    for name, where in asked.items():
        part = name.removeprefix(start)
        if name.startswith(f"{start}batch-") and not batched:
            raise InputError(f"option {name} has no effect without {start}mode: {BATCH}", where)
        if name != part and part in ("batch-throttle-qps", "batch-throttle-burst") and not throttled:
            raise InputError(f"option {name} has no effect without {start}batch-throttle-enable", where)
        if name.startswith(f"{start}truncate-max-") and not cut:
            raise InputError(f"option {name} has no effect without {start}truncate-enabled", where)
    where = next(where for name, where in asked.items() if name.startswith(start))
    known, version = names.api_version("audit", "v1"), _value(flags, backend, "version")
    if version and version != known:
        raise InputError(
            f"invalid group version {version}, allowed versions are [{known}]",
            asked.get(f"{start}version", where),
        )
    if batched and throttled:
        for name, text in (("qps", "throttle QPS"), ("burst", "throttle burst")):
            value = _value(flags, backend, f"batch_throttle_{name}")
            if value <= 0:
                raise InputError(
                    f"invalid audit batch {backend} {text} {value}, must be a positive number",
                    asked.get(f"{start}batch-throttle-{name}", where),
                )
    event, batch = (_value(flags, backend, f"truncate_max_{each}_size") for each in ("event", "batch"))
    if batch < event:
        raise InputError(
            f"invalid audit truncate {backend} max batch size {batch}, must be greater than max event size ({event})",
            asked.get(f"{start}truncate-max-batch-size", where),
        )
