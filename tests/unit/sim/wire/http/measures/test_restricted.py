"""Options of the controller manager restrict the metrics that it shows.

To see it fail: let `restricted` ignore one of the options, or keep equal series apart; let
`as_managers_show` restrict the families of other processes.
"""

from __future__ import annotations

import pytest
from prometheus_client import Metric

from sim.app.component_metrics import as_managers_show
from sim.errors import InputError
from sim.options.controller_manager import parse_controller_manager
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
    page = text_format(as_managers_show(counted, parse_controller_manager(flags)))
    return [line for line in page.splitlines() if not line.startswith("#")]


def test_all_families_and_values_are_shown_by_default() -> None:
    assert shown({}) == [
        f'{ADDS}{{name="job"}} 2',
        f'{ADDS}{{name="cronjob"}} 3',
        f'{ADDS}{{name="service"}} 4',
        'apiserver_x_total{name="job"} 1',
    ]


def test_disabled_family_of_the_controller_manager_is_not_shown() -> None:
    assert shown({"disabled-metrics": f"{ADDS},apiserver_x_total"}) == ['apiserver_x_total{name="job"} 1']


def test_values_that_are_not_allowed_are_added_up_as_unexpected() -> None:
    assert shown({"allow-metric-labels": {f"{ADDS},name": "job"}})[:-1] == [
        f'{ADDS}{{name="job"}} 2',
        f'{ADDS}{{name="unexpected"}} 7',
    ]


def test_label_without_a_family_is_refused() -> None:
    with pytest.raises(InputError, match="'name' is not of the form FAMILY,LABEL"):
        parse_controller_manager({"allow-metric-labels": {"name": "job"}})
