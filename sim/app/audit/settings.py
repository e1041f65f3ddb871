"""The audit options and the policy file that they name become the settings of the API servers.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/audit.go (ApplyTo),
         pkg/audit/policy/reader.go.
Differs  A relative path of a policy is searched in the folder of the scenario that names it.
"""

from __future__ import annotations

from typing import Any

from sim.api.audit.delivery import Batching, interval_us
from sim.api.audit.policy import Policy, PolicyError, parse_policy, problem_line
from sim.api.audit.settings import AuditSettings, LogSettings, WebhookSettings
from sim.ident import Names
from sim.options.apiserver.audit import POLICY, AuditFlags
from sim.patterns import pattern
from sim.scenario.read.option_file import OptionFile, OptionFiles
from sim.scenario.read.source import Document, only_document

MEGABYTE = 1 << 20
DEFAULT_SIZE_MB = 100  # lumberjack's, where the option is 0
_PART = pattern(r"([^.\[\]]+)|\[(\d+)\]")


def read_settings(flags: AuditFlags, names: Names, files: OptionFiles) -> AuditSettings | None:
    """The settings of the servers; None without an audit.  Raises InputError."""
    if not flags.audited:
        return None
    return audit_settings(flags, read_policy(files.of(POLICY, flags.audit_policy_file), names))


def read_policy(file: OptionFile, names: Names) -> Policy:
    """The policy of a file.  Raises InputError, with the place in the file."""
    return file.text(lambda text: _policy(only_document(text, file.path), names))


def _policy(document: Document, names: Names) -> Policy:
    try:
        return parse_policy(document.value, names)
    except PolicyError as error:
        first, *others = error.problems
        more = "".join([f"; {problem_line(each)}" for each in others])
        raise document.error(_path_of(first.field), problem_line(first) + more) from None


def _path_of(field: str) -> tuple[str | int, ...]:
    """The path of "rules[0].level"."""
    return tuple([name or int(index) for name, index in _PART.findall(field)])


def audit_settings(flags: AuditFlags, policy: Policy) -> AuditSettings:
    """The audit settings of a server."""
    return AuditSettings(
        policy,
        LogSettings(
            flags.audit_log_path,
            flags.audit_log_format,
            flags.audit_log_maxage_days,
            flags.audit_log_maxbackup,
            (flags.audit_log_maxsize_mb or DEFAULT_SIZE_MB) * MEGABYTE,
            flags.audit_log_compress,
            _batching(flags, "log"),
            flags.audit_log_truncate_max_event_size if flags.audit_log_truncate_enabled else 0,
        ),
        WebhookSettings(
            flags.audit_webhook_config_file,
            flags.audit_webhook_initial_backoff_us,
            _batching(flags, "webhook"),
            flags.audit_webhook_truncate_max_event_size if flags.audit_webhook_truncate_enabled else 0,
        ),
    )


def _batching(flags: AuditFlags, backend: str) -> Batching:
    def value(name: str) -> Any:
        return getattr(flags, f"audit_{backend}_{name}")

    throttled = value("batch_throttle_enable")
    qps, burst = (value(f"batch_throttle_{name}") for name in ("qps", "burst"))
    return Batching(
        value("mode"),
        value("batch_buffer_size"),
        value("batch_max_size"),
        value("batch_max_wait_us"),
        interval_us(qps) if throttled and qps > 0 else 0,
        max(1, burst) if throttled else 1,
    )
