"""The names of nodes and the places of pods, as a scenario gives them."""

from pathlib import Path

import pytest

from sim.errors import InputError
from sim.scenario.compile import load

PLACED = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: placed}
spec:
  duration: 5m
  cluster:
    nodes: [{count: 2, names: [ip-1, ip-2]}]
    PLACES
"""


def test_nodes_have_the_names_and_pods_the_places_that_are_given(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        PLACED.replace("PLACES", "established: true\n    places: {deployments/default/web: [ip-2, ip-1]}")
    )
    cluster = load(file).cluster
    assert [node.name for node in cluster.nodes] == ["ip-1", "ip-2"]
    assert cluster.places == {"deployments/default/web": ("ip-2", "ip-1")}


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ("places: {deployments/default/web: [ip-1]}", "only in an established cluster"),
        ("established: true\n    places: {deployments/default/web: [ip-3]}", "there is no node ip-3"),
        (
            "established: true\n    places: {jobs/default/web: [ip-1]}",
            "'jobs/default/web' is no workload with places",
        ),
    ],
)
def test_wrong_place_is_an_error(places: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(PLACED.replace("PLACES", places))
    with pytest.raises(InputError, match=message):
        load(file)


def test_group_with_too_few_names_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(PLACED.replace("    PLACES\n", "").replace("count: 2", "count: 3"))
    with pytest.raises(InputError, match="2 names for 3 nodes"):
        load(file)
