"""The metrics of the components of a cluster, for a program that runs it.

Turns what API servers, controller managers and schedulers count, and what they show of their
present state, into metric families of one kind of process.

Holds: counting begins with the first reader and costs nothing before; it changes no result, since
the servers leave their fast paths, which give the same results as the ordinary ones.

Mirrors  nothing upstream; each process has a port with its families there.
Differs  the replicas of a process are counted together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from prometheus_client import Metric

from sim.app.options import ClusterOptions
from sim.errors import InputError, suggestion_or_all
from sim.kernel import Kernel
from sim.kernel.meters import Meters
from sim.options.metrics import MetricsFlags
from sim.wire.http.measures.families import BOUNDS, HIDDEN, families
from sim.wire.http.measures.restricted import restricted
from sim.wire.http.measures.text import text_format

# The families of each kind of process, by how their names begin.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "apiserver": (
        "apiserver_",
        "aggregator_",
        "authenticated_",
        "authentication_",
        "etcd_",
        "field_validation_",
    ),
    "controller-manager": ("workqueue_", "node_collector_", "root_ca_cert_publisher_"),
    "scheduler": ("scheduler_",),
}


class Rebound(Protocol):
    """A server that may have to leave its fast paths."""

    def rebound(self) -> None:
        """Follow a change of what is counted."""
        ...


def begin_counting(kernel: Kernel, servers: Mapping[str, Rebound], meters: Meters) -> None:
    """Let the components count from now on, unless they do already."""
    if kernel.meters is None:
        kernel.meters = meters
        for server in servers.values():
            server.rebound()


def present_gauges(kernel: Kernel) -> dict[str, dict[tuple[str, ...], float]]:
    """What processes and work queues show of their present state, by family and labels.

    Of several replicas the largest value is shown: one of them leads, and the others see the same.
    """
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for _, shown in sorted(kernel.gauges.items()):
        for family, labels, value in shown():
            series = found.setdefault(family, {})
            series[labels] = max(series.get(labels, 0), value)
    return found


def as_shown(counted: Iterable[Metric], options: ClusterOptions) -> Iterator[Metric]:
    """Families as the options of their daemons restrict them."""
    daemons: Mapping[str, MetricsFlags] = {
        "apiserver": options.server_metrics,
        "controller-manager": options.controller_manager,
        "scheduler": options.scheduler,
    }
    for family in counted:
        for process, flags in daemons.items():
            if family.name.startswith(FAMILIES[process]):
                hidden = () if flags.show_hidden_metrics_for_version else HIDDEN
                disabled = (*flags.disabled_metrics, *hidden)
                yield from restricted((family,), disabled, flags.allow_metric_labels)
                break
        else:
            yield family


class ComponentMetrics:
    """The metrics of a cluster's components since this reader, or an earlier one, began to count."""

    def __init__(self, kernel: Kernel, servers: Mapping[str, Rebound], options: ClusterOptions) -> None:
        self._kernel, self._options = kernel, options
        begin_counting(kernel, servers, Meters(BOUNDS))

    def families(self, process: str = "") -> Iterator[Metric]:
        """The families of a kind of process ("apiserver", "controller-manager", "scheduler"), or
        of all.  Raises InputError.
        """
        if process and process not in FAMILIES:
            problem = f"no process {process!r} has metrics"
            raise InputError(problem, "", suggestion_or_all(process, tuple(FAMILIES)))
        meters = self._kernel.meters
        assert meters is not None
        counted = families(meters, present_gauges(self._kernel))
        for found in as_shown(counted, self._options):
            if not process or found.name.startswith(FAMILIES[process]):
                yield found

    def text(self, process: str = "") -> str:
        """The families as Prometheus reads them.  Raises InputError."""
        return text_format(self.families(process))

    def value(self, name: str, /, **labels: str) -> float:
        """The sum of all samples of a name (of a histogram with _count or _sum) that have these
        labels; 0 if there is none.
        """
        return sum(
            sample.value
            for family in self.families()
            if name.startswith(family.name)
            for sample in family.samples
            if sample.name == name and all(sample.labels.get(key) == want for key, want in labels.items())
        )
