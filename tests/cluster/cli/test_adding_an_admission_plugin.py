"""The worked example of CONTRIBUTING, "Add an admission plugin": AlwaysPullImages.

The class is what a new file of `sim/api/admission` would hold; the registration is its line in
`PLUGINS`. The rule is that of kubernetes v1.25 plugin/pkg/admission/alwayspullimages/admission.go,
without ephemeral containers.
"""

from __future__ import annotations

import pytest

from sim.api.admission import chain
from sim.api.admission.base import Attributes, Denial, View, forbidden
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.options import api_server_options
from sim.errors import InputError
from sim.options.api_server import parse_api_server
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan

LISTS = ("initContainers", "containers")
POD: Obj = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
}


class AlwaysPullImages:
    """Sets the pull policy of every container of a new pod to Always, and checks that it stayed so."""

    def concerns(self, operation: str, plural: str, subresource: str) -> bool:
        """True for creates and updates of pods."""
        return operation != "delete" and plural == "pods" and not subresource

    judges = concerns

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """A copy of the pod in which only the changed path is new: stored objects are immutable."""
        spec = obj["spec"]
        changed = {
            name: [{**container, "imagePullPolicy": "Always"} for container in spec[name]]
            for name in LISTS
            if spec.get(name)
        }
        return {**obj, "spec": {**spec, **changed}}

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """A refusal if a later plugin has changed a policy."""
        policies = [c.get("imagePullPolicy") for name in LISTS for c in obj["spec"].get(name) or ()]
        if all(policy == "Always" for policy in policies):
            return None
        return forbidden(attributes, "imagePullPolicy must be Always")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the line of the new plugin to the list, at upstream's place: before PodSecurity."""
    line = chain.Registration("AlwaysPullImages", lambda setup: AlwaysPullImages())
    place = chain.plugin_names().index("PodSecurity")
    monkeypatch.setattr(chain, "PLUGINS", (*chain.PLUGINS[:place], line, *chain.PLUGINS[place:]))


async def pull_policy(flags: dict[str, str]) -> str:
    """The pull policy of a pod that is created by an API server with these flags."""
    async with Cluster(ClusterPlan(api_server=ComponentPlan(flags=flags)), seed=1) as cluster:
        await cluster.run_for("10s")
        cluster.apply(POD)
        await cluster.run_for("1s")
        pod = cluster.get("pods", "web")
        assert pod is not None
        policy: str = pod["spec"]["containers"][0]["imagePullPolicy"]
        return policy


async def test_added_plugin_changes_pods_that_are_created() -> None:
    assert await pull_policy({}) == "Always"


async def test_added_plugin_is_disabled_by_its_name() -> None:
    assert await pull_policy({"disable-admission-plugins": "AlwaysPullImages"}) == "IfNotPresent"


def test_added_plugin_is_named_where_a_name_is_misspelled() -> None:
    flags = parse_api_server({"disable-admission-plugins": "AlwaysPullImage"})
    with pytest.raises(
        InputError, match="ServiceAccount, TaintNodesByCondition, AlwaysPullImages, PodSecurity"
    ):
        api_server_options(flags, "outage.yaml:7:9")
