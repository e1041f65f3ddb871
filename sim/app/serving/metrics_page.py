"""The page /metrics of a served cluster.

Turns the present state of a cluster, and what was counted of it, into metric families.

Holds: from the first reader on, the requests of the cluster's components are counted too; before
that nothing inside the simulation counts.  A reader changes no result (see
`sim.wire.http.measures.begin`), and a session that is read is replayed as it was served.

Mirrors  kubernetes v1.25: the families of an API server, see `sim.wire.http.measures`;
         component-base metrics (kubernetes_build_info), prometheus/client_golang's process
         collector.
Differs  all processes of the cluster are on this one page, as they are one process; those of
         the scheduler and the controllers have ports of their own upstream, and here the pages
         `/metrics?process=scheduler` and `/metrics?process=controller-manager`; the scheduler's
         /metrics/resources is `/metrics?process=resources`.  The Go runtime is
         Python's (python_info, python_gc_*).
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily

from sim.app.cluster import Cluster
from sim.app.measured.components import PAGES, RESOURCES, component_families
from sim.app.measured.shown import build_info, memory_limit, merged, runtime
from sim.kernel.meters import Meters
from sim.wire.http.gateway import Gateway
from sim.wire.http.measures.begin import FROM_THE_START
from sim.wire.http.measures.counts import Counts
from sim.wire.http.measures.families import BOUNDS
from sim.wire.http.measures.text import text_format


def metrics_text(
    cluster: Cluster, gateway: Gateway, counts: Counts, about: Mapping[str, str], process: str
) -> str:
    """The text of the page.

    about: the fields of /version
    process: the kind of process that has the families; all kinds if there is no such kind
    """
    gateway.begin_counting()
    shown = Meters(BOUNDS)
    if cluster.kernel.meters is None:
        for family, labels in FROM_THE_START:
            shown.count(family, labels, 0)
    else:
        counts.meters = cluster.kernel.meters
    counts.show(shown)
    chosen = process if process in PAGES else ""
    if chosen == RESOURCES:
        return text_format(component_families(cluster, counts.meters, chosen))
    result = component_families(cluster, counts.meters, chosen, shown)
    own = (*_run_families(cluster), build_info(cluster.names.product, about), memory_limit())
    return text_format(merged((*result, *own, *runtime())))


def _run_families(cluster: Cluster) -> tuple[Metric, ...]:
    """The progress of the run."""
    kernel = cluster.kernel
    text = "Virtual time since the start of the run."
    return (
        CounterMetricFamily("orrery_virtual_time_seconds", text, kernel.now_us / 1e6),
        CounterMetricFamily("orrery_work_units", "Units of work that the simulation has done.", kernel.steps),
    )
