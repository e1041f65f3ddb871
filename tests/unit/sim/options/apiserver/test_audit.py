"""The audit options: defaults, effects, and what is refused."""

from typing import Any

import pytest

from sim.api.audit.delivery import Batching
from sim.api.audit.policy import Level, Policy, Scope
from sim.api.audit.settings import AuditSettings
from sim.app.audit.settings import audit_settings
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.apiserver.server import parse_api_server

POLICY = Policy((), Scope(Level.NONE))
LOG = {"audit-policy-file": "p.yaml", "audit-log-path": "a.log"}
WEBHOOK = {"audit-policy-file": "p.yaml", "audit-webhook-config-file": "w.yaml"}


def settings(given: dict[str, Any]) -> AuditSettings:
    return audit_settings(parse_api_server(given), POLICY)


def test_nothing_is_audited_by_default() -> None:
    assert not parse_api_server({}).audited


def test_defaults_of_the_backends_are_upstreams() -> None:
    found = settings(LOG).log
    assert (found.path, found.form, found.size_max) == ("a.log", "json", 100 << 20)
    assert (found.age_max_days, found.backups_max, found.compresses, found.event_max) == (0, 0, False, 0)
    assert found.batching == Batching("blocking")
    webhook = settings(WEBHOOK).webhook
    assert (webhook.config, webhook.backoff_us) == ("w.yaml", 10_000_000)
    assert webhook.batching == Batching("batch", 10_000, 400, 30_000_000, 100_000, 15)


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"audit-log-format": "legacy"}, "form", "legacy"),
        ({"audit-log-maxage": 3}, "age_max_days", 3),
        ({"audit-log-maxbackup": 4}, "backups_max", 4),
        ({"audit-log-maxsize": 5}, "size_max", 5 << 20),
        ({"audit-log-compress": True}, "compresses", True),
        ({"audit-log-mode": "blocking-strict"}, "batching", Batching("blocking-strict")),
        ({"audit-log-truncate-enabled": True}, "event_max", 100 << 10),
        ({"audit-log-truncate-enabled": True, "audit-log-truncate-max-event-size": 9}, "event_max", 9),
        (
            {
                "audit-log-mode": "batch",
                "audit-log-batch-buffer-size": 7,
                "audit-log-batch-max-size": 3,
                "audit-log-batch-max-wait": "2s",
                "audit-log-batch-throttle-enable": True,
                "audit-log-batch-throttle-qps": 4,
                "audit-log-batch-throttle-burst": 6,
            },
            "batching",
            Batching("batch", 7, 3, 2_000_000, 250_000, 6),
        ),
        ({"audit-log-version": "audit.orch.io/v1"}, "form", "json"),
    ],
)
def test_option_of_the_log_has_its_effect(given: dict[str, Any], field: str, value: object) -> None:
    assert getattr(settings({**LOG, **given}).log, field) == value


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"audit-webhook-initial-backoff": "3s"}, "backoff_us", 3_000_000),
        ({"audit-webhook-truncate-enabled": True}, "event_max", 100 << 10),
        (
            {"audit-webhook-truncate-enabled": True, "audit-webhook-truncate-max-event-size": 9},
            "event_max",
            9,
        ),
        (
            {"audit-webhook-mode": "batch", "audit-webhook-batch-throttle-enable": False},
            "batching",
            Batching("batch", 10_000, 400, 30_000_000),
        ),
        (
            {
                "audit-webhook-batch-buffer-size": 7,
                "audit-webhook-batch-max-size": 3,
                "audit-webhook-batch-max-wait": "2s",
                "audit-webhook-batch-throttle-qps": 4,
                "audit-webhook-batch-throttle-burst": 6,
            },
            "batching",
            Batching("batch", 7, 3, 2_000_000, 250_000, 6),
        ),
    ],
)
def test_option_of_the_webhook_has_its_effect(given: dict[str, Any], field: str, value: object) -> None:
    assert getattr(settings({**WEBHOOK, **given}).webhook, field) == value


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"audit-policy-file": "p"}, "option audit-policy-file has no effect without a backend"),
        ({"audit-log-path": "a"}, "option audit-log-path has no effect without audit-policy-file"),
        ({"audit-log-maxage": 1}, "option audit-log-maxage has no effect without audit-log-path"),
        (
            {"audit-webhook-mode": "batch"},
            "option audit-webhook-mode has no effect without audit-webhook-config-file",
        ),
        ({**LOG, "audit-log-format": "xml"}, "must be one of json, legacy"),
        ({**LOG, "audit-log-mode": "later"}, "must be one of batch, blocking, blocking-strict"),
        ({**LOG, "audit-log-maxage": -1}, "must be at least 0"),
        ({**LOG, "audit-log-maxbackup": -1}, "must be at least 0"),
        ({**LOG, "audit-log-maxsize": -1}, "must be at least 0"),
        ({**LOG, "audit-log-version": "audit.k8s.io/v1"}, "allowed versions are [audit.orch.io/v1]"),
        ({**LOG, "audit-log-batch-max-size": 3}, "has no effect without audit-log-mode: batch"),
        ({**LOG, "audit-log-mode": "batch", "audit-log-batch-max-size": 0}, "must be more than 0"),
        (
            {**LOG, "audit-log-mode": "batch", "audit-log-batch-throttle-qps": 3},
            "has no effect without audit-log-batch-throttle-enable",
        ),
        (
            {**LOG, "audit-log-mode": "batch", "audit-log-batch-throttle-enable": True},
            "invalid audit batch log throttle QPS 0.0, must be a positive number",
        ),
        (
            {**WEBHOOK, "audit-webhook-batch-throttle-burst": 0},
            "invalid audit batch webhook throttle burst 0, must be a positive number",
        ),
        (
            {**LOG, "audit-log-truncate-max-event-size": 5},
            "has no effect without audit-log-truncate-enabled",
        ),
        (
            {**LOG, "audit-log-truncate-enabled": True, "audit-log-truncate-max-batch-size": 5},
            "invalid audit truncate log max batch size 5, must be greater than max event size (102400)",
        ),
        (
            {**WEBHOOK, "audit-webhook-mode": "later"},
            "must be one of batch, blocking, blocking-strict",
        ),
        ({**WEBHOOK, "audit-webhook-initial-backoff": "0s"}, "must be more than 0"),
        ({**WEBHOOK, "audit-webhook-version": "v1"}, "invalid group version v1"),
    ],
)
def test_option_without_effect_or_sense_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as error:
        parse_api_server(given)
    assert says in str(error.value)


def test_version_belongs_to_the_naming_set() -> None:
    given = {**LOG, "audit-log-version": "audit.k8s.io/v1"}
    assert parse_api_server(given, names=NAMES["kubernetes"]).audited
