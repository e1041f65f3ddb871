"""Jobs: strategy, validation and table."""

from __future__ import annotations

from sim.api.kinds.tables import cells
from tests.unit.sim.api.kinds.writes import NAMING, SCHEME, TEMPLATE, made, problems


def test_job_gets_a_selector_of_its_uid() -> None:
    job = made("jobs", {"template": TEMPLATE})
    labels = {"controller-uid": "u", "job-name": "x"}
    assert job["spec"]["selector"] == {"matchLabels": {"controller-uid": "u"}}
    assert job["spec"]["template"]["metadata"]["labels"] == labels == job["metadata"]["labels"]
    assert job["metadata"]["annotations"] == {NAMING.annotation_job_tracking: ""}
    assert (job["spec"]["completions"], job["spec"]["parallelism"], job["spec"]["backoffLimit"]) == (1, 1, 6)
    assert problems("jobs", job) == []


def test_job_with_manual_selector_keeps_it() -> None:
    template = {**TEMPLATE, "metadata": {"labels": {"a": "b"}}}
    selector = {"matchLabels": {"a": "b"}}
    job = made("jobs", {"manualSelector": True, "selector": selector, "template": template})
    assert job["spec"]["selector"] == selector and job["metadata"]["labels"] == {"a": "b"}


def test_update_of_completions_or_template_is_refused() -> None:
    old = made("jobs", {"template": TEMPLATE, "completions": 2})
    template = {**old["spec"]["template"], "spec": {**old["spec"]["template"]["spec"], "nodeName": "n"}}
    new = {**old, "spec": {**old["spec"], "completions": 3, "template": template}}
    found = problems("jobs", new, old)
    assert [text.partition(":")[0] for text in found] == ["spec.completions", "spec.template"]
    assert 'Invalid value: core.PodTemplateSpec{ObjectMeta:v1.ObjectMeta{Name:""' in found[1]
    assert 'NodeName:"n"' in found[1]


def test_template_that_always_restarts_is_refused() -> None:
    spec = {**TEMPLATE["spec"], "restartPolicy": "Always"}
    found = problems("jobs", made("jobs", {"template": {"spec": spec}}))
    assert found == ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']


def test_rows_show_completions_of_a_job_and_usage_of_a_quota() -> None:
    job = {**made("jobs", {"template": TEMPLATE, "completions": 3}), "status": {"succeeded": 1}}
    assert cells(SCHEME.resource("jobs"), job, 0, NAMING)[1] == "1/3"
    status = {"hard": {"pods": "10", "limits.cpu": "4"}, "used": {"pods": "3"}}
    quota = {**made("resourcequotas", {"hard": status["hard"]}), "status": status}
    assert cells(SCHEME.resource("resourcequotas"), quota, 0, NAMING)[2:] == ["pods: 3/10", "limits.cpu: 0/4"]
