"""Options of a process restrict the metrics that it shows.

To see it fail: let `restricted` ignore one of the options, or keep equal series apart; let
`as_shown` show hidden families.
"""

from __future__ import annotations

import pytest
from prometheus_client import Metric

from sim.app.measured.shown import as_shown
from sim.errors import InputError
from sim.options.controllers.manager import parse_controller_manager
from sim.wire.http.measures.text import text_format

ADDS = "workqueue_adds_total"


def family(name: str, *values: tuple[str, float]) -> Metric:
    found = Metric(name, "Text.", "counter")
    for queue, value in values:
        found.add_sample(name, {"name": queue}, value)
    return found


def shown(flags: dict[str, object]) -> list[str]:
    counted = [
        family(ADDS, ("job", 2), ("cronjob", 3), ("service", 4)),
        family("apiserver_x_total", ("job", 1)),
    ]
    page = text_format(as_shown(counted, parse_controller_manager(flags)))
    return [line for line in page.splitlines() if not line.startswith("#")]


def test_all_families_and_values_are_shown_by_default() -> None:
    assert shown({}) == [
        f'{ADDS}{{name="job"}} 2',
        f'{ADDS}{{name="cronjob"}} 3',
        f'{ADDS}{{name="service"}} 4',
        'apiserver_x_total{name="job"} 1',
    ]


def test_disabled_family_of_the_controller_manager_is_not_shown() -> None:
    assert shown({"disabled-metrics": ADDS}) == ['apiserver_x_total{name="job"} 1']


def test_values_that_are_not_allowed_are_added_up_as_unexpected() -> None:
    assert shown({"allow-metric-labels": {f"{ADDS},name": "job"}})[:-1] == [
        f'{ADDS}{{name="job"}} 2',
        f'{ADDS}{{name="unexpected"}} 7',
    ]


def test_label_without_a_family_is_refused() -> None:
    with pytest.raises(InputError, match="'name' is not of the form FAMILY,LABEL"):
        parse_controller_manager({"allow-metric-labels": {"name": "job"}})


def test_families_that_earlier_releases_deprecated_are_shown_on_request() -> None:
    hidden = "node_collector_evictions_number"
    counted = [family(hidden, ("z", 1)), family("node_collector_evictions_total", ("z", 1))]

    def names(flags: dict[str, object]) -> list[str]:
        return [found.name for found in as_shown(counted, parse_controller_manager(flags))]

    assert names({}) == ["node_collector_evictions_total"]
    assert hidden in names({"show-hidden-metrics-for-version": "1.24"})
    with pytest.raises(InputError, match=r"must be omitted or have the value '1\.24'\. Only the previous"):
        parse_controller_manager({"show-hidden-metrics-for-version": "1.23"})
