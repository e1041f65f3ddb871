"""Jobs, CronJobs, autoscalers, quotas and limit ranges on their way in and in tables."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.strategies import for_create, warnings_of
from sim.api.kinds.tables import cells
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.schema.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]
SCHEME = Scheme(NAMING)
CRON_JOBS = SCHEME.resource("cronjobs")
TEMPLATE: Obj = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}


def made(resource: str, spec: Obj, **meta: Any) -> Obj:
    """An object as it comes to validation."""
    obj = {"metadata": {"name": "x", "namespace": "d", "uid": "u", **meta}, "spec": spec}
    found = SCHEME.resource(resource)
    return for_create(found, apply_defaults(found, obj), NAMING)


def problems(resource: str, obj: Obj, old: Obj | None = None) -> list[str]:
    kind = SCHEME.resource(resource)
    errors = validate_create(kind, obj) if old is None else validate_update(kind, obj, old)
    return [f"{error.field}: {error.message}" for error in errors]


def test_a_job_selects_its_pods_by_its_own_uid() -> None:
    job = made("jobs", {"template": TEMPLATE})
    labels = {"controller-uid": "u", "job-name": "x"}
    assert job["spec"]["selector"] == {"matchLabels": {"controller-uid": "u"}}
    assert job["spec"]["template"]["metadata"]["labels"] == labels == job["metadata"]["labels"]
    assert job["metadata"]["annotations"] == {NAMING.annotation_job_tracking: ""}
    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["backoffLimit"]) == (1, 1, 6)
    assert problems("jobs", job) == []


def test_a_job_keeps_a_selector_of_its_makers() -> None:
    template = {**TEMPLATE, "metadata": {"labels": {"a": "b"}}}
    selector = {"matchLabels": {"a": "b"}}
    job = made("jobs", {"manualSelector": True, "selector": selector, "template": template})
    assert job["spec"]["selector"] == selector and job["metadata"]["labels"] == {"a": "b"}


def test_a_jobs_completions_and_template_stay() -> None:
    old = made("jobs", {"template": TEMPLATE, "completions": 2})
    template = {**old["spec"]["template"], "spec": {**old["spec"]["template"]["spec"], "nodeName": "n"}}
    new = {**old, "spec": {**old["spec"], "completions": 3, "template": template}}
    assert [text.partition(":")[0] for text in problems("jobs", new, old)] == [
        "spec.completions",
        "spec.template",
    ]


def test_a_pod_that_always_restarts_makes_no_job() -> None:
    spec = {**TEMPLATE["spec"], "restartPolicy": "Always"}
    found = problems("jobs", made("jobs", {"template": {"spec": spec}}))
    assert found == ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']


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
def test_a_cron_job_that_could_not_run_is_refused(spec: Obj, problem: str) -> None:
    found = problems("cronjobs", made("cronjobs", {"jobTemplate": {"spec": {"template": TEMPLATE}}, **spec}))
    assert any(problem in text for text in found)


def test_a_quota_has_scopes_that_fit_its_resources() -> None:
    found = problems(
        "resourcequotas", made("resourcequotas", {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]})
    )
    assert found == [
        'spec.scopes: Invalid value: []core.ResourceQuotaScope{"BestEffort"}: '
        "unsupported scope applied to resource"
    ]


def test_what_a_container_may_have_at_most_becomes_its_default_limit_and_request() -> None:
    limits = made(
        "limitranges", {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}]}
    )
    assert limits["spec"]["limits"][0]["default"] == {"cpu": "2"}
    assert limits["spec"]["limits"][0]["defaultRequest"] == {"cpu": "2"}


def test_an_autoscaler_watches_cpu_unless_told_otherwise_and_keeps_it_last() -> None:
    target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
    plain = made("horizontalpodautoscalers", {"maxReplicas": 5, "scaleTargetRef": target})
    assert plain["spec"]["metrics"][0]["resource"]["target"] == {
        "type": "Utilization",
        "averageUtilization": 80,
    }
    memory = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Value"}}}
    both = {"maxReplicas": 5, "scaleTargetRef": target, "metrics": [plain["spec"]["metrics"][0], memory]}
    names = [m["resource"]["name"] for m in made("horizontalpodautoscalers", both)["spec"]["metrics"]]
    assert names == ["memory", "cpu"]


def test_tables_tell_how_far_a_job_and_a_quota_are() -> None:
    job = {**made("jobs", {"template": TEMPLATE, "completions": 3}), "status": {"succeeded": 1}}
    assert cells(SCHEME.resource("jobs"), job, 0, NAMING)[1] == "1/3"
    status = {"hard": {"pods": "10", "limits.cpu": "4"}, "used": {"pods": "3"}}
    quota = {**made("resourcequotas", {"hard": status["hard"]}), "status": status}
    assert cells(SCHEME.resource("resourcequotas"), quota, 0, NAMING)[2:] == ["pods: 3/10", "limits.cpu: 0/4"]


def test_a_zone_inside_a_schedule_is_warned_of() -> None:
    (text,) = warnings_of(CRON_JOBS, {"spec": {"schedule": "TZ=UTC * * * * *"}}, None, NAMING, False)
    assert text.startswith("CRON_TZ or TZ used in spec.spec.schedule is not officially supported")
    assert (
        warnings_of(CRON_JOBS, {"spec": {"schedule": "* * * * *", "timeZone": "UTC"}}, None, NAMING, False)
        == []
    )
