"""Defaults per kind."""

import pytest

from sim.api.kinds.common.pods.defaults import pull_policy
from sim.api.kinds.defaults import apply_defaults
from sim.api.schema.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def default(kind, obj):
    return apply_defaults(SCHEME.resource(kind), obj)


def test_a_pod_gets_the_fields_upstream_fills_in():
    pod = default(
        "pods", {"spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}}
    )
    assert pod["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "imagePullPolicy": "Always",
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }


def test_limits_become_requests_in_pods_but_not_in_templates():
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}
    pod = default("pods", {"spec": {"containers": [container]}})
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    spec = {"template": {"spec": {"containers": [container]}}}
    made = default("deployments", {"spec": spec})["spec"]["template"]["spec"]
    assert "requests" not in made["containers"][0]["resources"]
    assert "enableServiceLinks" not in made


@pytest.mark.parametrize(
    "kind", ["pods", "deployments", "replicasets", "statefulsets", "daemonsets", "services"]
)
def test_defaulting_twice_returns_the_same_object(kind):
    spec = TEMPLATE["spec"] if kind == "pods" else {"template": TEMPLATE, "ports": [{"port": 80}]}
    once = default(kind, {"metadata": {"name": "x"}, "spec": spec})
    assert default(kind, once) is once


def test_pods_of_one_template_share_their_defaulted_containers():
    spec = {"containers": [{"name": "c", "image": "i:1"}]}
    one = default("pods", {"metadata": {"name": "a"}, "spec": spec})
    two = default("pods", {"metadata": {"name": "b"}, "spec": {**spec, "nodeName": "n"}})
    assert one["spec"]["containers"] is two["spec"]["containers"]
    assert "imagePullPolicy" not in spec["containers"][0]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("host:5000/a/b", "Always"),
        ("nginx@sha256:" + "a" * 64, "IfNotPresent"),
        ("", "IfNotPresent"),
        ("UPPER", "IfNotPresent"),
    ],
)
def test_only_the_latest_image_is_always_pulled(image, policy):
    assert pull_policy(image) == policy


def test_workloads_get_their_strategies():
    deployment = default("deployments", {"spec": {"template": TEMPLATE}})["spec"]
    assert deployment["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (deployment["replicas"], deployment["progressDeadlineSeconds"]) == (1, 600)
    assert default("deployments", {"spec": {"replicas": 0}})["spec"]["replicas"] == 0
    recreate = default("deployments", {"spec": {"strategy": {"type": "Recreate"}}})["spec"]["strategy"]
    assert recreate == {"type": "Recreate"}
    daemons = default("daemonsets", {"spec": {}})["spec"]["updateStrategy"]
    assert daemons["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    stateful = default("statefulsets", {"spec": {}})["spec"]
    assert stateful["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    given = default("statefulsets", {"spec": {"updateStrategy": {"type": "RollingUpdate"}}})["spec"]
    assert given["updateStrategy"] == {"type": "RollingUpdate"}


def test_services_route_to_their_own_port_by_default():
    spec = default("services", {"spec": {"ports": [{"port": 80}]}})["spec"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (spec["type"], spec["internalTrafficPolicy"]) == ("ClusterIP", "Cluster")
    assert "externalTrafficPolicy" not in spec


def test_probes_count_zero_as_not_set():
    container = {"name": "c", "image": "i", "livenessProbe": {"httpGet": {"port": 1}, "timeoutSeconds": 0}}
    pod = default("pods", {"spec": {"containers": [container]}})
    assert pod["spec"]["containers"][0]["livenessProbe"] == {
        "httpGet": {"port": 1, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def test_a_volume_without_source_is_an_empty_directory():
    spec = {"containers": [], "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}]}
    volumes = default("pods", {"spec": spec})["spec"]["volumes"]
    assert volumes[0]["emptyDir"] == {} and volumes[1]["secret"]["defaultMode"] == 420
