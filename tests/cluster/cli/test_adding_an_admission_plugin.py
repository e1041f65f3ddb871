"""The worked example of CONTRIBUTING, "Add an admission plugin": every pod gets a label `team`.

The class is what a new file of `sim/api/admission/plugins` would hold; the registration is its line
in `PLUGINS`.
"""

from __future__ import annotations

import pytest

from sim.api.admission import chain
from sim.api.admission.base import Attributes, Denial, View, forbidden
from sim.api.objects import labels_of, with_metadata
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.options import api_server_options
from sim.errors import InputError
from sim.options.apiserver.server import parse_api_server
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.scenario.read.option_file import OptionFiles

POD: Obj = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "web", "image": "web:1"}]},
}


class PodTeamLabel:
    """Gives a new pod the label `team` if it has none, and checks that the label has a value."""

    def concerns(self, operation: str, plural: str, subresource: str) -> bool:
        """True for creates of pods."""
        return operation == "create" and plural == "pods" and not subresource

    judges = concerns

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """A copy of the pod in which only the changed path is new: stored objects are immutable."""
        labels = labels_of(obj)
        return obj if "team" in labels else with_metadata(obj, labels={**labels, "team": "none"})

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """A refusal if the label is empty."""
        return None if labels_of(obj)["team"] else forbidden(attributes, "the label team must have a value")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the line of the new plugin to the list, before PodSecurity."""
    line = chain.Registration("PodTeamLabel", "c", "", lambda setup: PodTeamLabel())
    place = chain.plugin_names().index("PodSecurity")
    monkeypatch.setattr(chain, "PLUGINS", (*chain.PLUGINS[:place], line, *chain.PLUGINS[place:]))


async def team_of_new_pod(flags: dict[str, str]) -> str | None:
    """The label of a pod that is created by an API server with these flags."""
    async with Cluster(ClusterPlan(api_server=ComponentPlan(flags=flags)), seed=1) as cluster:
        await cluster.run_for("10s")
        cluster.apply(POD)
        await cluster.run_for("1s")
        pod = cluster.get("pods", "web")
        assert pod is not None
        return labels_of(pod).get("team")


async def test_added_plugin_changes_pods_that_are_created() -> None:
    assert await team_of_new_pod({}) == "none"


async def test_added_plugin_is_disabled_by_its_name() -> None:
    assert await team_of_new_pod({"disable-admission-plugins": "PodTeamLabel"}) is None


def test_added_plugin_is_named_where_a_name_is_misspelled() -> None:
    flags = parse_api_server({"disable-admission-plugins": "PodTeamLabels"})
    with pytest.raises(InputError, match="did you mean 'PodTeamLabel'"):
        api_server_options(flags, OptionFiles("outage.yaml:7:9"))
