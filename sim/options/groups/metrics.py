"""Options of a daemon about the metrics that it shows.

Mirrors  kubernetes v1.25 component-base metrics/options.go.
Differs  a daemon's families that are deprecated are counted whether they are shown or not.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.dataclass import dataclass
from sim.options.base import mapping, option, string, strings
from sim.patterns import pattern

PREVIOUS_MINOR = "1.24"
_METRIC_LABEL = pattern(r"[a-zA-Z_:][a-zA-Z0-9_:]*,[a-zA-Z_][a-zA-Z0-9_]*")


def _metric_labels(value: Mapping[str, str]) -> str | None:
    wrong = next((key for key in value if not _METRIC_LABEL.fullmatch(key)), None)
    return None if wrong is None else f"{wrong!r} is not of the form FAMILY,LABEL"


def _previous_minor(value: str) -> str | None:
    if value in ("", PREVIOUS_MINOR):
        return None
    return f"must be omitted or have the value '{PREVIOUS_MINOR}'. Only the previous minor version is allowed"


@dataclass(frozen=True)  # without slots: it is one of several bases
class MetricsFlags:
    """Which metric families a daemon shows, and with which labels."""

    disabled_metrics: tuple[str, ...] = option("disabled-metrics", strings, ())
    allow_metric_labels: Mapping[str, str] = option("allow-metric-labels", mapping, {}, check=_metric_labels)
    show_hidden_metrics_for_version: str = option(
        "show-hidden-metrics-for-version",
        string,
        "",
        check=_previous_minor,
        effect=f"{PREVIOUS_MINOR}: families that have been deprecated for more than a release are shown",
    )
