"""Options of a daemon restrict the metrics that it shows.

To see it fail: let `restricted` ignore one of the options, or keep equal series apart; let
`as_shown` restrict the families of other processes, or show what v1.25 hides.
"""

from __future__ import annotations

import pytest
from prometheus_client import Metric

from sim.app.component_metrics import as_shown
from sim.app.options import check_options
from sim.errors import InputError
from sim.kernel.meters import Meters
from sim.options.controller_manager import parse_controller_manager
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.wire.http.measures.families import BOUNDS, families
from sim.wire.http.measures.text import text_format

ADDS = "workqueue_adds_total"


def family(name: str, *values: tuple[str, float]) -> Metric:
    found = Metric(name, "Text.", "counter")
    for queue, value in values:
        found.add_sample(name, {"name": queue}, value)
    return found


def shown(flags: dict[str, object], process: str = "controller_manager") -> list[str]:
    counted = [
        family(ADDS, ("job", 2), ("cronjob", 3), ("service", 4)),
        family("apiserver_x_total", ("job", 1)),
    ]
    options = check_options(ClusterPlan(nodes=(), **{process: ComponentPlan(flags=flags)}))
    page = text_format(as_shown(counted, options))
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


def test_options_of_a_process_leave_the_metrics_of_others() -> None:
    given: dict[str, object] = {"disabled-metrics": f"{ADDS},apiserver_x_total"}
    assert shown(given, "scheduler") == shown({})
    assert [line.split("{")[0] for line in shown(given, "api_server")] == [ADDS] * 3


def test_hidden_metrics_are_shown_for_the_previous_version() -> None:
    meters = Meters(BOUNDS)
    meters.count("node_collector_evictions_number", ("a",))
    meters.observe("scheduler_e2e_scheduling_duration_seconds", ("p", "scheduled"), 0.5)
    hidden = "evictions_number", "e2e_scheduling"
    for process in (None, "controller_manager", "scheduler"):
        flags = {"show-hidden-metrics-for-version": "1.24"}
        plan = ClusterPlan(nodes=(), **({process: ComponentPlan(flags=flags)} if process else {}))
        page = text_format(as_shown(families(meters), check_options(plan)))
        found = [name for name in hidden if name in page]
        assert found == {None: [], "controller_manager": [hidden[0]], "scheduler": [hidden[1]]}[process]
        if process == "controller_manager":
            assert "[ALPHA] (Deprecated since 1.24.0) Number of Node evictions that" in page


def test_hidden_metrics_of_another_version_are_refused() -> None:
    with pytest.raises(InputError, match=r"must be omitted or have the value '1\.24'\. Only the previous"):
        parse_controller_manager({"show-hidden-metrics-for-version": "1.25"})


def test_values_that_are_not_allowed_are_added_up_as_unexpected() -> None:
    assert shown({"allow-metric-labels": {f"{ADDS},name": "job"}})[:-1] == [
        f'{ADDS}{{name="job"}} 2',
        f'{ADDS}{{name="unexpected"}} 7',
    ]


def test_label_without_a_family_is_refused() -> None:
    with pytest.raises(InputError, match="'name' is not of the form FAMILY,LABEL"):
        parse_controller_manager({"allow-metric-labels": {"name": "job"}})
