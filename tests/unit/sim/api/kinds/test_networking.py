"""Ingresses, their classes, NetworkPolicies, RuntimeClasses and PodTemplates; the recorded answers are in
test_validation_golden."""

from sim.api.kinds.tables import row
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.schema.scheme import Scheme
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api

N = NAMES["kubernetes"]
SCHEME = Scheme(N)
GROUP = "/apis/networking.k8s.io/v1"
CLASSES, RUNTIMES = f"{GROUP}/ingressclasses", "/apis/node.k8s.io/v1/runtimeclasses"
INGRESSES = f"{GROUP}/namespaces/golden-ns/ingresses"
PODS = "/api/v1/namespaces/golden-ns/pods"
BACKEND = {"service": {"name": "s", "port": {"number": 80}}}
DEFAULT = {"ingressclass.kubernetes.io/is-default-class": "true"}


def ingress(name, annotations=None, **spec):
    return {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"defaultBackend": BACKEND, **spec},
    }


def pod(**spec):
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def fields(errors):
    return [error.field for error in errors]


def test_an_ingress_without_a_class_gets_the_default_one():
    api = Api()
    assert "ingressClassName" not in api.ask("POST", INGRESSES, ingress("a")).obj["spec"]
    for name in ("z", "d"):
        body = {"metadata": {"name": name, "annotations": DEFAULT}, "spec": {"controller": "x.y/z"}}
        assert api.ask("POST", CLASSES, body).code == 201
    made = api.ask("POST", INGRESSES, ingress("b")).obj
    assert made["spec"]["ingressClassName"] == "d"  # both are equally old
    assert made["status"] == {"loadBalancer": {}}
    own = api.ask("POST", INGRESSES, ingress("c", ingressClassName="own")).obj
    assert own["spec"]["ingressClassName"] == "own"
    old = api.ask("POST", INGRESSES, ingress("e", {"kubernetes.io/ingress.class": "x"})).obj
    assert "ingressClassName" not in old["spec"]


def test_a_class_must_be_that_of_a_controller_and_stays_so():
    resource = SCHEME.resource("ingressclasses")
    wrong = {
        "metadata": {"name": "c"},
        "spec": {"controller": "nodomain", "parameters": {"scope": "Namespace"}},
    }
    assert fields(validate_create(resource, wrong)) == [
        "spec.controller",
        "spec.parameters.kind",
        "spec.parameters.name",
        "spec.parameters.namespace",
    ]
    metadata = {"name": "c", "resourceVersion": "1"}
    before = {"metadata": metadata, "spec": {"controller": "x.y/z"}}
    after = {"metadata": metadata, "spec": {"controller": "x.y/a"}}
    assert fields(validate_update(resource, after, before)) == ["spec.controller"]


def test_what_a_policy_excepts_lies_within_its_block():
    resource = SCHEME.resource("networkpolicies")

    def excepting(*inside):
        block = {"cidr": "1.2.3.0/24", "except": list(inside)}
        spec = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}
        return fields(validate_create(resource, {"metadata": {"name": "n", "namespace": "a"}, "spec": spec}))

    assert excepting("1.2.3.0/25", "1.2.3.128/32") == []
    at = "spec.ingress[0].from[0].ipBlock.except"
    assert excepting("9.9.9.9/32", "1.2.3.0/24", "x", "y") == [f"{at}[0]", f"{at}[1]", f"{at}[2]"]
    assert excepting("::1/128") == [f"{at}[0]"]


def test_the_status_of_a_policy_is_shown_empty_whoever_writes_one():
    api = Api()
    policies = "/apis/networking.k8s.io/v1/namespaces/golden-ns/networkpolicies"
    told = {"conditions": [{"type": "Accepted", "status": "True", "reason": "R", "message": "m"}]}
    body = {"metadata": {"name": "n"}, "spec": {"podSelector": {}}}
    assert api.ask("POST", policies, {**body, "status": told}).obj["status"] == {}
    first = api.ask("GET", f"{policies}/n").obj
    assert api.ask("PUT", f"{policies}/n", body).obj == first
    merge = "application/merge-patch+json"
    assert api.ask("PATCH", f"{policies}/n", {"status": None}, merge).obj == first
    assert (
        api.ask("PATCH", f"{policies}/n/status", {"status": {"conditions": None}}, merge).obj["status"] == {}
    )


def test_a_pod_takes_over_what_its_runtime_class_says():
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


def test_a_pod_of_no_runtime_class_or_of_another_mind_is_refused():
    api = Api()
    body = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    api.ask("POST", RUNTIMES, {**body, "scheduling": {"nodeSelector": {"vm": "yes"}}})

    def told(**spec):
        reply = api.ask("POST", PODS, pod(**spec))
        assert reply.code == 403
        return reply.message.removeprefix('pods "p" is forbidden: ')

    assert told(runtimeClassName="none") == 'pod rejected: RuntimeClass "none" not found'
    assert "doesn't match" in told(runtimeClassName="kata", overhead={"cpu": "1"})
    assert told(runtimeClassName="kata", nodeSelector={"vm": "no"}).startswith(
        "conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no"
    )
    assert "without corresponding RuntimeClass" in told(overhead={"cpu": "1"})


def test_a_template_counts_its_versions():
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


def test_rows_show_hosts_classes_and_selectors():
    hosts = [{"host": f"{name}.example.com"} for name in "abcde"]
    shown = ingress("many", rules=hosts, tls=[{}])
    shown["metadata"]["creationTimestamp"] = "2022-08-23T00:00:00Z"
    cells = row(SCHEME.resource("ingresses"), shown, 0, N)["cells"]
    assert cells[:5] == [
        "many",
        "<none>",
        "a.example.com,b.example.com,c.example.com + 2 more...",
        "",
        "80, 443",
    ]
