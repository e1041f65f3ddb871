"""Metric families in Prometheus' text format, as the Go client of Prometheus writes it.

Turns families into lines: help, type, then one line a sample; numbers in the shortest form of Go.

Mirrors  prometheus/common expfmt/text_create.go, golang strconv (FormatFloat with 'g').
Differs  The Python client of Prometheus adds "_total" to the names of counters and writes `3.0`, so
         that its text is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import Metric

from sim.api.go.printing import go_float

LAST = ("le", "quantile")  # labels after all others
TYPES = {"unknown": "untyped"}


def text_format(families: Iterable[Metric]) -> str:
    """The page, with the families in the order given; one without samples has no lines."""
    return "".join(line for family in families if family.samples for line in _lines(family))


def _lines(family: Metric) -> Iterator[str]:
    name = family.name
    if family.type == "counter" and family.samples[0].name != name:
        name = family.samples[0].name
    yield f"# HELP {name} {_escaped(family.documentation)}\n"
    yield f"# TYPE {name} {TYPES.get(family.type, family.type)}\n"
    for sample in family.samples:
        pairs = sorted(sample.labels.items(), key=lambda pair: (pair[0] in LAST, pair[0]))
        labels = ",".join(f'{key}="{_quoted(value)}"' for key, value in pairs)
        shown = f"{{{labels}}}" if labels else ""
        yield f"{sample.name}{shown} {go_float(sample.value)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
