"""The metric families that exist: names, types, labels, buckets, texts and stability.

Turns the list `families.txt` into values, and counted and shown numbers into metric families for
Prometheus.

Holds: families are in the order of their names, and the series of a family in that of their
    labels; a family with labels is absent while it has no series, as with upstream's client; the
    text of a family begins with its stability.

Mirrors  kubernetes v1.25, the files metrics.go of its components: names, labels, buckets, texts and
         stability; component-base metrics/{opts,registry}.go (deprecated and hidden families).
Differs  times are virtual, so that work which takes no virtual time takes 0. Families of the Go
         runtime, gRPC, KMS and the size of etcd are missing, and so are
         authentication_token_cache_*, attachdetach_controller_total_volumes,
         storage_count_attachable_volumes_in_use, volume_operation_total_* and
         csi_operations_seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from sim.api.go.printing import go_float
from sim.kernel.meters import Histogram, Labels, Meters
from sim.options.groups.metrics import PREVIOUS_MINOR

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.core import HistogramMetricFamily

STABLE, ALPHA = "STABLE", "ALPHA"
NO_STABILITY = "NONE"  # of the families of a library
# The labels of what a request addresses.
PLACE = ("group", "resource", "scope", "subresource", "verb", "version")
EVERY_PROCESS = "every process"
HISTOGRAM, GAUGE, SUMMARY = "histogram", "gauge", "summary"
RESOURCES = "resources"
SERVERS = ("controller-manager", "scheduler")
# Families of the server library that these processes register too, and leave at 0.
SERVED_BY_ALL = (
    "apiserver_audit_event_total",
    "apiserver_audit_requests_rejected_total",
    "apiserver_client_certificate_expiration_seconds",
    "apiserver_envelope_encryption_dek_cache_fill_percent",
    "apiserver_storage_data_key_generation_duration_seconds",
    "apiserver_storage_data_key_generation_failures_total",
    "apiserver_storage_envelope_transformation_cache_misses_total",
    "apiserver_webhooks_x509_insecure_sha1_total",
    "apiserver_webhooks_x509_missing_san_total",
)
EARLY = "EXPERIMENTAL: "  # before the stability, as component-base writes it
QUANTILES = (0.5, 0.9, 0.99)
ONE_SERIES, FIRST_VALUE = "-", "{}"  # in the column of labels

KindOf = Callable[[str], str]
T = TypeVar("T")


class Family(NamedTuple):
    """One family.

    process: the kind of process that has it
    type: of Prometheus
    buckets: the upper bounds of a histogram
    deprecated: the minor version of upstream that deprecates it; 0 if none does
    always: True if it has no labels and is shown before it has a value
    """

    process: str
    type: str
    labels: tuple[str, ...]
    text: str
    buckets: tuple[float, ...] = ()
    stability: str = ALPHA
    deprecated: int = 0
    always: bool = False

    @property
    def help(self) -> str:
        """The text that readers see."""
        if self.stability == NO_STABILITY:
            return self.text
        since = f"(Deprecated since 1.{self.deprecated}.0) " if self.deprecated else ""
        early = EARLY if self.text.startswith(EARLY) else ""
        return f"{early}[{self.stability}] {since}{self.text.removeprefix(EARLY)}"

    @property
    def hidden(self) -> bool:
        """True if it is only shown on request: an earlier version has deprecated it."""
        return 0 < self.deprecated <= int(PREVIOUS_MINOR.partition(".")[2])


def parse_families(text: str) -> dict[str, Family]:
    """The families of a list, by name, in the order of the names."""
    result: dict[str, Family] = {}
    process = ""
    for line in text.splitlines():
        if line.startswith("["):
            process = line[1:-1]
        elif line and not line.startswith("#"):
            name, kind, stability, labels, help_text = [*f"{line} ".split(" | ", 4), ""][:5]
            level, _, since = stability.partition(" ")
            type_of, _, bounds = kind.partition(" ")
            named = () if labels in (ONE_SERIES, FIRST_VALUE) else tuple(labels.split(","))
            result[name] = Family(
                process,
                type_of,
                named,
                help_text.strip(),
                _bounds(bounds.split()),
                level,
                int(since.partition(".")[2] or 0),
                labels == ONE_SERIES,
            )
    return dict(sorted(result.items()))


def _bounds(words: list[str]) -> tuple[float, ...]:
    if not words or words[0] not in ("exp", "lin"):
        return tuple(map(float, words))
    bound, by = float(words[1]), float(words[2])
    result = []
    for _ in range(int(words[3])):
        result.append(bound)
        bound = bound * by if words[0] == "exp" else bound + by
    return tuple(result)


FAMILIES: Mapping[str, Family] = parse_families(
    Path(__file__).with_name("families.txt").read_text(encoding="utf-8")
)
BOUNDS: Mapping[str, tuple[float, ...]] = {
    name: family.buckets for name, family in FAMILIES.items() if family.buckets
}


def families(
    process: str, meters: Meters, shown: Meters, kind_of: KindOf = str, sample: str = ""
) -> Iterator[Metric]:
    """The families of a kind of process that have a series, hidden ones too.

    meters: what was counted; shown: what follows from the present state
    kind_of: the kind of the process that owns a series of a family of every process, from the
        first of its labels, which is not shown
    sample: the name of a sample, if only its family is wanted
    """
    for name, family in FAMILIES.items():
        mine = family.process == process or (family.process == EVERY_PROCESS and process != RESOURCES)
        if (sample and not sample.startswith(name)) or not (mine or name in SERVED_BY_ALL):
            continue
        owned = family.process == EVERY_PROCESS
        if not mine:
            if process in SERVERS:
                yield from _zero(name, family)
            continue
        if family.type == HISTOGRAM:
            measured = meters.histograms.get(name, {}) | shown.histograms.get(name, {})
            if owned:
                measured = _owned(measured, process, kind_of, Histogram.plus)
            if measured or family.always:
                yield _histogram(name, family, measured or {(): Histogram(len(family.buckets))})
            continue
        if family.type == SUMMARY:
            if sampled := meters.summaries.get(name):
                yield _summary(name, family, sampled)
            continue
        values = meters.counters.get(name, {}) | shown.counters.get(name, {})
        if owned:
            values = _owned(values, process, kind_of, add)
        if not values and family.always:
            values = {(): 0}
        if values:
            yield _plain(name, family, values)


def _zero(name: str, family: Family) -> Iterator[Metric]:
    """A family of servers in a process that uses no part of it."""
    if family.type == HISTOGRAM:
        yield _histogram(name, family, {(): Histogram(len(family.buckets))})
    else:
        yield _plain(name, family, {(): 0})


def _owned(
    series: Mapping[Labels, T], process: str, kind_of: KindOf, plus: Callable[[T, T], T]
) -> dict[Labels, T]:
    """The series of one kind of process, without the owner; those that become equal are added."""
    result: dict[Labels, T] = {}
    for (owner, *rest), value in series.items():
        if kind_of(owner) == process:
            labels = tuple(rest)
            result[labels] = plus(result[labels], value) if labels in result else value
    return result


def _plain(name: str, family: Family, values: Mapping[Labels, float]) -> Metric:
    from prometheus_client import Metric

    result = Metric(name, family.help, family.type)
    for labels, value in sorted(values.items()):
        result.add_sample(name, dict(zip(family.labels, labels, strict=True)), value)
    return result


def _summary(name: str, family: Family, sampled: Mapping[Labels, Mapping[float, int]]) -> Metric:
    """A summary with the quantiles of all values."""
    from prometheus_client import Metric

    result = Metric(name, family.help, family.type)
    for labels, values in sorted(sampled.items()):
        named = dict(zip(family.labels, labels, strict=True))
        count = sum(values.values())
        for quantile in QUANTILES:
            reached = 0
            for value, times in sorted(values.items()):
                reached += times
                if reached >= quantile * count:
                    result.add_sample(name, {**named, "quantile": f"{quantile:g}"}, value)
                    break
        result.add_sample(f"{name}_sum", named, sum(value * times for value, times in values.items()))
        result.add_sample(f"{name}_count", named, count)
    return result


def _histogram(name: str, family: Family, measured: Mapping[Labels, Histogram]) -> HistogramMetricFamily:
    from prometheus_client.core import HistogramMetricFamily

    result = HistogramMetricFamily(name, family.help, labels=family.labels)
    bounds = [*map(go_float, family.buckets), "+Inf"]
    for labels, histogram in sorted(measured.items(), key=lambda pair: pair[0]):
        reached, buckets = 0, []
        for bound, count in zip(bounds, histogram.counts, strict=True):
            reached += count
            buckets.append((bound, reached))
        result.add_metric(labels, buckets, histogram.total)
    return result
