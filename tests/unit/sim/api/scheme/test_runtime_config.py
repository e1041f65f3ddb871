"""Which kinds are served."""

import pytest

from sim.api.scheme.discovery import api_group, api_group_list
from sim.api.scheme.runtime_config import turned_off
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

N = NAMES["kubernetes"]


def off(**config):
    return turned_off({key.replace("__", "/"): value for key, value in config.items()}, N)


def test_alpha_versions_are_off_by_default_and_turned_on_by_name_or_together():
    alpha = {
        ("networking.k8s.io", "v1alpha1", "clustercidrs"),
        ("internal.apiserver.k8s.io", "v1alpha1", "storageversions"),
    }
    assert off() == alpha
    assert off(api__alpha="true") == off(api__all="true") == frozenset()
    (left,) = off(**{"networking.k8s.io/v1alpha1": "true"})
    assert left[0] == "internal.apiserver.k8s.io"
    assert Scheme(N).find("networking.k8s.io", "v1alpha1", "clustercidrs") is None


def test_version_that_upstream_knows_and_never_serves_may_be_named():
    assert off(batch__v1beta1="true") == off(**{"policy/v1beta1": "false"}) == off()
    assert off(**{"storage.k8s.io/v1alpha1/csistoragecapacities": "true"}) == off()


def test_a_resource_wins_over_its_version_and_that_over_all():
    config = {"api/all": "false", "apps/v1": "true", "apps/v1/daemonsets": "false", "v1": ""}
    scheme = Scheme(N, turned_off(config, N))
    served = {(r.group, r.plural) for r in scheme.resources}
    assert {group for group, _ in served} == {"", "apps", "apiregistration.k8s.io"}
    assert ("apps", "deployments") in served
    assert ("apps", "daemonsets") not in served
    assert scheme.find("apps", "v1", "daemonsets") is None
    assert scheme.resource("daemonsets").kind == "DaemonSet"
    groups = [group["name"] for group in api_group_list(scheme)["groups"]]
    assert groups == ["apiregistration.k8s.io", "apps"]


def test_betas_can_be_turned_off_together():
    scheme = Scheme(N, off(api__beta="false"))
    autoscaling = api_group(scheme, "autoscaling")
    assert autoscaling is not None
    assert [entry["version"] for entry in autoscaling["versions"]] == ["v2", "v1"]
    assert api_group(scheme, "flowcontrol.apiserver.k8s.io") is None


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"api/all": "false"}, "invalid key with only api/all=false"),
        ({"api/beta": "x"}, "invalid value api/beta=x"),
        ({"batch/v1": "x"}, "invalid value batch/v1=x"),
        ({"nope/v1": "true"}, "unknown api groups nope"),
        ({"batch/v9": "true"}, "group version batch/v9 that has not been registered"),
        ({"batch": "true"}, "runtime-config invalid key batch"),
        ({"batch/v1/nopes": "true"}, "runtime-config invalid key batch/v1/nopes"),
    ],
)
def test_what_is_not_there_is_refused_in_upstreams_words(config, says):
    with pytest.raises(ValueError, match=says):
        turned_off(config, N)
