"""The metrics of the components of a cluster, for a program that runs it.

Turns what API servers, controller managers and schedulers count, and what they show of their
present state, into metric families of one kind of process, or of all together.

Holds: counting begins with the first reader and costs nothing before; see
`sim.wire.http.measures.begin`.

Mirrors  kubernetes v1.25 component-base metrics/{options,registry}.go; each process has a port with
         its families there.
Differs  the replicas of a process are counted together; on the page of all processes, equal series
         of a family that every process has are added up.
"""

from __future__ import annotations

from prometheus_client import Metric

from sim.app.measured.resources import show_resources
from sim.app.measured.shown import PROCESSES, as_shown, merged, process_of
from sim.app.measured.state import show_state
from sim.app.parts.ports import BuiltCluster
from sim.errors import InputError, suggestion_or_all
from sim.kernel.meters import Meters
from sim.wire.http.measures.begin import begin_counting
from sim.wire.http.measures.families import BOUNDS, families
from sim.wire.http.measures.text import text_format

# The page /metrics/resources of the scheduler, with series for every pod; only shown by its name.
RESOURCES = "resources"
PAGES = (*PROCESSES, RESOURCES)


def component_families(
    cluster: BuiltCluster, meters: Meters, process: str = "", shown: Meters | None = None, sample: str = ""
) -> list[Metric]:
    """The families of a kind of process, or of all, as their options show them.

    shown: values of the present state that are added to those of the cluster
    sample: the name of a sample, if only its family is wanted
    """
    shown = Meters(BOUNDS) if shown is None else shown
    if process == RESOURCES:
        bucket = cluster.storage.store.bucket(cluster.scheme.prefix("pods"))
        show_resources((bucket.items[key].obj for key in sorted(bucket.items)), shown)
        result = families(RESOURCES, Meters(BOUNDS), shown)
        return list(as_shown(result, cluster.options.metrics["scheduler"]))
    show_state(cluster, shown)
    counted_of: list[Metric] = []
    for each in PROCESSES:
        if process in ("", each):
            counted = families(each, meters, shown, lambda owner: process_of(owner, cluster.names), sample)
            counted_of.extend(as_shown(counted, cluster.options.metrics[each]))
    return merged(counted_of)


class ComponentMetrics:
    """The metrics of a cluster's components since this reader, or an earlier one, began to count."""

    def __init__(self, cluster: BuiltCluster) -> None:
        self._cluster = cluster
        self._meters = begin_counting(
            cluster.kernel, [each.rebound for each in cluster.api_servers.values()], Meters(BOUNDS)
        )

    def families(self, process: str = "") -> list[Metric]:
        """The families of a kind of process ("apiserver", "controller-manager", "scheduler"), or
        of all; or "resources", what each pod requests.  Raises InputError.
        """
        if process and process not in PAGES:
            problem = f"no process {process!r} has metrics"
            raise InputError(problem, "", suggestion_or_all(process, PAGES))
        return component_families(self._cluster, self._meters, process)

    def text(self, process: str = "") -> str:
        """The families as Prometheus reads them.  Raises InputError."""
        return text_format(self.families(process))

    def value(self, name: str, /, **labels: str) -> float:
        """The sum of all samples of a name (of a histogram with _count or _sum) that have these
        labels; 0 if there is none.
        """
        return sum(
            sample.value
            for family in component_families(self._cluster, self._meters, sample=name)
            if name.startswith(family.name)
            for sample in family.samples
            if sample.name == name and all(sample.labels.get(key) == want for key, want in labels.items())
        )
