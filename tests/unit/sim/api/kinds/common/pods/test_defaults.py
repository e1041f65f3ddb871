"""Defaults of pod specs and templates."""

import pytest

from sim.api.kinds.common.pods.defaults import pull_policy
from sim.api.kinds.defaults import apply_defaults
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])


def default(kind, obj):
    return apply_defaults(SCHEME.resource(kind), obj)


def test_limits_become_requests_in_pods_but_not_in_templates():
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}
    pod = default("pods", {"spec": {"containers": [container]}})
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    spec = {"template": {"spec": {"containers": [container]}}}
    made = default("deployments", {"spec": spec})["spec"]["template"]["spec"]
    assert "requests" not in made["containers"][0]["resources"]
    assert "enableServiceLinks" not in made


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


def test_zero_in_a_probe_counts_as_not_set():
    container = {"name": "c", "image": "i", "livenessProbe": {"httpGet": {"port": 1}, "timeoutSeconds": 0}}
    pod = default("pods", {"spec": {"containers": [container]}})
    assert pod["spec"]["containers"][0]["livenessProbe"] == {
        "httpGet": {"port": 1, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def test_volume_without_source_is_an_empty_directory():
    spec = {"containers": [], "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}]}
    volumes = default("pods", {"spec": spec})["spec"]["volumes"]
    assert volumes[0]["emptyDir"] == {} and volumes[1]["secret"]["defaultMode"] == 420
