"""CronJobs: validation and warnings."""

from __future__ import annotations

import pytest

from sim.api.kinds.strategies import warnings_of
from sim.api.types import Obj
from tests.unit.sim.api.kinds.writes import NAMING, SCHEME, TEMPLATE, made, problems

CRON_JOBS = SCHEME.resource("cronjobs")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"schedule": "61 * * * *"}, "end of range (61) above maximum (59): 61"),
        ({"schedule": "* * * * *", "timeZone": "Local"}, "timeZone must be an explicit time zone"),
        (
            {"schedule": "TZ=UTC * * * * *", "timeZone": "Europe/Berlin"},
            "cannot use both timeZone field and TZ",
        ),
        ({"schedule": "* * * * *", "concurrencyPolicy": "Never"}, 'Unsupported value: "Never"'),
    ],
)
def test_cron_job_that_could_not_run_is_refused(spec: Obj, problem: str) -> None:
    found = problems("cronjobs", made("cronjobs", {"jobTemplate": {"spec": {"template": TEMPLATE}}, **spec}))
    assert any(problem in text for text in found)


def test_time_zone_in_a_schedule_gives_a_warning() -> None:
    (text,) = warnings_of(CRON_JOBS, {"spec": {"schedule": "TZ=UTC * * * * *"}}, None, NAMING, False)
    assert text.startswith("CRON_TZ or TZ used in spec.spec.schedule is not officially supported")
    assert (
        warnings_of(CRON_JOBS, {"spec": {"schedule": "* * * * *", "timeZone": "UTC"}}, None, NAMING, False)
        == []
    )
