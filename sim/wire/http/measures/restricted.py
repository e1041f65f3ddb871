"""Metric families as the options of a process restrict them.

Turns the families of a process into those that are shown: without the disabled ones, and with
`unexpected` in place of each value of a label that is not on the label's list.

Holds: series that become equal are added up; a label without a list keeps its values.

Mirrors  kubernetes v1.25 component-base metrics/{options.go,opts.go}: disabled-metrics,
         allow-metric-labels (constrainToAllowedList).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from prometheus_client import Metric

UNEXPECTED = "unexpected"


def restricted(
    families: Iterable[Metric], disabled: Collection[str], allowed: Mapping[str, str]
) -> Iterator[Metric]:
    """The families that are shown.

    disabled: full names of families
    allowed: "FAMILY,LABEL" to the values that the label may have, with commas between them
    """
    lists: dict[str, dict[str, list[str]]] = {}
    for key, values in allowed.items():
        name, _, label = key.partition(",")
        lists.setdefault(name, {})[label] = values.split(",")
    for family in families:
        name = _full_name(family)
        if name in disabled:
            continue
        yield _constrained(family, lists[name]) if name in lists else family


def _full_name(family: Metric) -> str:
    """The name of a family; a counter of the Python client leaves `_total` to its samples."""
    if family.type == "counter" and family.samples:
        return str(family.samples[0].name)
    return str(family.name)


def _constrained(family: Metric, lists: Mapping[str, Collection[str]]) -> Metric:
    found = Metric(family.name, family.documentation, family.type)
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in family.samples:
        labels = tuple(
            (label, value if label not in lists or value in lists[label] else UNEXPECTED)
            for label, value in sample.labels.items()
        )
        sums[sample.name, labels] = sums.get((sample.name, labels), 0) + sample.value
    for (name, labels), value in sums.items():
        found.add_sample(name, dict(labels), value)
    return found
