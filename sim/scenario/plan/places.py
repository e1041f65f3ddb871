"""The nodes of the pods of an established cluster: the field `cluster.places`, checked.

A workload is written as KIND/NAMESPACE/NAME, with the plural of its kind; a pod without a workload
has `spec.nodeName` in its own manifest.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from sim.patterns import pattern
from sim.scenario.plan.context import Compiler
from sim.scenario.read.source import Document, Path_
from sim.scenario.schema.sections import Cluster

PLACED = ("deployments", "replicasets", "statefulsets", "replicationcontrollers")
_WORKLOAD = pattern(rf"({'|'.join(PLACED)})/[^/]+/[^/]+")


HERE: Path_ = ("spec", "cluster", "places")


def places_of(compiler: Compiler, cluster: Cluster, nodes: Container[str]) -> Mapping[str, tuple[str, ...]]:
    """The nodes of the pods of each workload; an error in them is noted.

    nodes: the names of the nodes of the scenario
    """
    with compiler.part(HERE):
        _check(compiler.document, HERE, cluster.places, cluster.established, nodes)
    return {workload: tuple(places) for workload, places in cluster.places.items()}


def _check(
    document: Document,
    path: Path_,
    given: Mapping[str, Sequence[str]],
    established: bool,
    nodes: Container[str],
) -> None:
    """Raises InputError."""
    if given and not established:
        remedy = "add established: true, or leave places out"
        raise document.error(path, "pods have places only in an established cluster", remedy)
    for workload, places in given.items():
        if not _WORKLOAD.fullmatch(workload):
            remedy = f"write KIND/NAMESPACE/NAME with one of {', '.join(PLACED)}"
            raise document.error((*path, workload), f"{workload!r} is no workload with places", remedy)
        for index, node in enumerate(places):
            if node not in nodes:
                raise document.error((*path, workload, index), f"there is no node {node}")
