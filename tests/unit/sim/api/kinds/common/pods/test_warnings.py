"""Warnings about pods and templates, on plain values; the recorded ones are in
test_validation_golden.
"""

from sim.api.kinds.strategies import warnings_of
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

N = NAMES["kubernetes"]
SCHEME = Scheme(N)


def pod_warnings(plural, obj, old, names):
    return warnings_of(SCHEME.resource(plural), obj, old, names, from_outside=True)


def pod(annotations=None, **spec):
    return {"metadata": {"name": "p", "annotations": annotations or {}}, "spec": spec}


def test_plain_pod_gives_no_warning():
    assert pod_warnings("pods", pod(containers=[{"name": "c", "image": "i"}]), None, N) == []


def test_deprecated_fields_give_warnings_in_the_order_of_upstream():
    expression = {"key": "beta.kubernetes.io/arch", "operator": "Exists"}
    terms = [{"matchExpressions": [{"key": "x"}, expression]}]
    found = pod_warnings(
        "pods",
        pod(
            annotations={"scheduler.alpha.kubernetes.io/critical-pod": ""},
            nodeSelector={"beta.kubernetes.io/os": "linux"},
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
                }
            },
            topologySpreadConstraints=[{"topologyKey": "failure-domain.beta.kubernetes.io/zone"}],
            volumes=[{"name": "g", "gitRepo": {}}],
        ),
        None,
        N,
    )
    at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
    assert found == [
        'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead',
        f"{at}.matchExpressions[1].key: beta.kubernetes.io/arch is deprecated since v1.14; "
        'use "kubernetes.io/arch" instead',
        "spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is deprecated "
        'since v1.17; use "topology.kubernetes.io/zone" instead',
        "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; "
        'use the "priorityClassName" field instead',
        "spec.volumes[0].gitRepo: deprecated in v1.11",
    ]


def test_duplicates_and_fractional_bytes_give_warnings():
    env = [{"name": "A"}, {"name": "A"}]
    resources = {"requests": {"memory": "100m"}}
    found = pod_warnings(
        "pods",
        pod(
            imagePullSecrets=[{"name": "s"}, {}, {"name": "s"}],
            hostAliases=[{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}],
            containers=[{"name": "c", "env": env, "resources": resources}],
        ),
        None,
        N,
    )
    assert found == [
        'spec.hostAliases[1].ip: duplicate ip "1.2.3.4"',
        'spec.imagePullSecrets[2].name: duplicate name "s"',
        'spec.imagePullSecrets[1].name: invalid empty name ""',
        'spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer',
        'spec.containers[0].env[1].name: duplicate name "A"',
    ]


def test_update_gives_warnings_if_the_generation_changes():
    template = {"spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}}

    def at(generation):
        return {"metadata": {"generation": generation}, "spec": {"template": template}}

    (text,) = pod_warnings("deployments", at(2), at(1), N)
    assert text.startswith("spec.template.spec.nodeSelector[beta.kubernetes.io/os]: ")
    assert pod_warnings("deployments", at(1), at(1), N) == []
    job = {"metadata": {}, "spec": {"jobTemplate": {"spec": {"template": template}}}}
    assert pod_warnings("cronjobs", job, None, N)[0].startswith("spec.jobTemplate.spec.template.spec.node")
    assert pod_warnings("replicationcontrollers", at(1), None, N)[0].startswith("template.spec.node")
    assert pod_warnings("replicationcontrollers", at(2), at(1), N)[0].startswith("spec.template.spec.node")
