"""Metric families in Prometheus' text format."""

from math import inf, nan

import pytest
from prometheus_client import Metric
from prometheus_client.core import HistogramMetricFamily

from sim.api.go.printing import go_float
from sim.wire.http.measures.text import text_format


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (3.0, "3"),
        (253, "253"),
        (0.5, "0.5"),
        (123456, "123456"),
        (999999.5, "999999.5"),
        (1_000_000, "1e+06"),
        (2.222811168603e12, "2.222811168603e+12"),
        (327680.25, "327680.25"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (5.2139999999999995e-06, "5.2139999999999995e-06"),
        (-1.5, "-1.5"),
        (2.0**64, "1.8446744073709552e+19"),
        (inf, "+Inf"),
        (nan, "NaN"),
    ],
)
def test_number_has_the_shortest_form_of_go(value: float, shown: str) -> None:
    assert go_float(value) == shown


def test_counter_without_total_keeps_its_name_and_labels_are_sorted() -> None:
    counter = Metric("attempts", "One\nline.", "counter")
    counter.add_sample("attempts", {"b": '"x"', "a": "\\"}, 2)
    histogram = HistogramMetricFamily("took", "Time.", labels=("verb",))
    histogram.add_metric(("GET",), [("1", 1), ("+Inf", 2)], 4.5)
    assert text_format((counter, histogram, Metric("empty", "", "gauge"))).splitlines() == [
        "# HELP attempts One\\nline.",
        "# TYPE attempts counter",
        'attempts{a="\\\\",b="\\"x\\""} 2',
        "# HELP took Time.",
        "# TYPE took histogram",
        'took_bucket{verb="GET",le="1"} 1',
        'took_bucket{verb="GET",le="+Inf"} 2',
        'took_count{verb="GET"} 2',
        'took_sum{verb="GET"} 4.5',
    ]
