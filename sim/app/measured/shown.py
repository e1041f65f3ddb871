"""What a reader sees of the metrics of one process, in a cluster or alone.

Turns counted families into those that the options of a process show, and the present state of a
process and of this program into further ones.

Mirrors  kubernetes v1.25 component-base metrics/{options,registry}.go, prometheus/client_golang's
         process collector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from resource import RLIMIT_AS, getrlimit

from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.samples import Sample

from sim.ident import Names
from sim.kernel import Kernel
from sim.kernel.meters import Meters
from sim.options.groups.metrics import MetricsFlags
from sim.wire.http.measures.families import FAMILIES
from sim.wire.http.measures.restricted import restricted

PROCESSES = ("apiserver", "controller-manager", "scheduler")
_RUNTIME = (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR)


def as_shown(counted: Iterable[Metric], flags: MetricsFlags) -> Iterator[Metric]:
    """The families of a process as its options restrict them."""
    visible = (
        result
        for result in counted
        if result.name not in FAMILIES
        or not FAMILIES[result.name].hidden
        or flags.show_hidden_metrics_for_version
    )
    yield from restricted(visible, flags.disabled_metrics, flags.allow_metric_labels)


def merged(found: Iterable[Metric]) -> list[Metric]:
    """The families in the order of their names; the series of equal names are added up."""
    by_name: dict[str, Metric] = {}
    for family in found:
        one = by_name.setdefault(family.name, Metric(family.name, family.documentation, family.type))
        one.samples = one.samples + family.samples if not one.samples else _added(one, family)
    return [by_name[name] for name in sorted(by_name)]


def _added(one: Metric, other: Metric) -> list[Sample]:
    places = {(s.name, tuple(s.labels.items())): at for at, s in enumerate(one.samples)}
    samples = list(one.samples)
    for sample in other.samples:
        at = places.get((sample.name, tuple(sample.labels.items())))
        if at is None:
            samples.append(sample)
        else:
            samples[at] = samples[at]._replace(value=samples[at].value + sample.value)
    return samples


def process_of(owner: str, names: Names) -> str:
    """The kind of a process, from the name of the process or from its user agent."""
    for process in PROCESSES:
        if owner == names.component(process) or owner.startswith(f"{process}-"):
            return process
    return ""


def show_processes(kernel: Kernel, shown: Meters) -> None:
    """What processes and work queues show of themselves.

    Of several replicas the largest value is shown: one of them leads, and the others see the same.
    """
    for _, values in sorted(kernel.gauges.items()):
        for family, labels, value in values():
            shown.set(family, labels, value)


def runtime() -> list[Metric]:
    """The families of this program's process and its interpreter."""
    return [metric for collector in _RUNTIME for metric in collector.collect()]


def memory_limit() -> Metric:
    """The limit of the address space of this program."""
    text = "Maximum amount of virtual memory available in bytes."
    limit = getrlimit(RLIMIT_AS)[0]
    return GaugeMetricFamily("process_virtual_memory_max_bytes", text, limit % (1 << 64))


def build_info(product: str, about: Mapping[str, str]) -> Metric:
    """The version of this program.  about: the fields of /version"""
    labels = {
        "build_date": about.get("buildDate", ""),
        "compiler": about.get("compiler", ""),
        "git_commit": about.get("gitCommit", ""),
        "git_tree_state": about.get("gitTreeState", ""),
        "git_version": about.get("gitVersion", ""),
        "go_version": about.get("goVersion", ""),
        "major": about.get("major", ""),
        "minor": about.get("minor", ""),
        "platform": about.get("platform", ""),
    }
    text = (
        "[ALPHA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree "
        "state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is "
        "running."
    )
    result = GaugeMetricFamily(f"{product}_build_info", text, labels=tuple(labels))
    result.add_metric(tuple(labels.values()), 1)
    return result
