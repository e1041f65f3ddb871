"""PodTemplates."""

from tests.unit.sim.api.golden_api import Api


def pod(**spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def test_generation_of_a_pod_template_counts_changes_of_the_template():
    api = Api()
    path = "/api/v1/namespaces/golden-ns/podtemplates"
    spec = pod()["spec"]
    made = api.ask("POST", path, {"metadata": {"name": "t"}, "template": {"spec": spec}}).obj
    assert made["metadata"]["generation"] == 1
    merge = "application/merge-patch+json"
    labelled = api.ask("PATCH", f"{path}/t", {"metadata": {"labels": {"a": "b"}}}, merge).obj
    assert labelled["metadata"]["generation"] == 1
    grace = {"template": {"spec": {"terminationGracePeriodSeconds": 9}}}
    assert api.ask("PATCH", f"{path}/t", grace, merge).obj["metadata"]["generation"] == 2
