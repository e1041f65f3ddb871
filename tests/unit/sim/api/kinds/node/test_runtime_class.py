"""RuntimeClasses and the pods that name one."""

from tests.unit.sim.api.golden_api import Api

RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"

PODS = "/api/v1/namespaces/golden-ns/pods"


def pod(**spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def test_pod_gets_overhead_and_scheduling_of_its_runtime_class():
    api = Api()
    body = {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "0.25"}},
        "scheduling": {"nodeSelector": {"vm": "yes"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
    }
    assert api.ask("POST", RUNTIMES, body).code == 201
    made = api.ask("POST", PODS, pod(runtimeClassName="kata")).obj["spec"]
    assert made["overhead"] == {"cpu": "250m"}
    assert made["nodeSelector"] == {"vm": "yes"}
    assert {"key": "vm", "operator": "Exists"} in made["tolerations"]


def test_pod_that_contradicts_its_runtime_class_is_refused():
    api = Api()
    body = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    api.ask("POST", RUNTIMES, {**body, "scheduling": {"nodeSelector": {"vm": "yes"}}})

    def refusal(**spec):
        reply = api.ask("POST", PODS, pod(**spec))
        assert reply.code == 403
        return reply.message.removeprefix('pods "p" is forbidden: ')

    assert refusal(runtimeClassName="none") == 'pod rejected: RuntimeClass "none" not found'
    assert "doesn't match" in refusal(runtimeClassName="kata", overhead={"cpu": "1"})
    assert refusal(runtimeClassName="kata", nodeSelector={"vm": "no"}).startswith(
        "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no"
    )
    assert "without corresponding RuntimeClass" in refusal(overhead={"cpu": "1"})


def test_runtime_classes_have_any_finalizer_and_priority_classes_known_ones():
    api = Api()
    metadata = {"name": "a", "finalizers": ["mine"]}
    assert api.ask("POST", RUNTIMES, {"metadata": metadata, "handler": "h"}).code == 201
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    refused = api.ask("POST", classes, {"metadata": metadata, "value": 1})
    assert (refused.code, "neither a standard finalizer" in refused.obj["message"]) == (422, True)
