"""Table rows as kubectl prints them."""

import pytest

from sim.api.kinds.tables import cells, columns
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]
SCHEME = Scheme(NAMING)
PODS = SCHEME.resource("pods")


def test_columns_describe_their_fields():
    found = {column["name"]: column for column in columns(PODS)}
    assert found["Name"]["format"] == "name" and found["Name"]["description"].startswith(
        "Name must be unique"
    )
    assert [found[name]["priority"] for name in ("Age", "IP")] == [0, 1]


@pytest.mark.parametrize("resource", SCHEME.resources, ids=repr)
def test_every_kind_has_a_cell_for_every_column(resource):
    assert len(cells(resource, {"metadata": {"name": "a"}}, 0, NAMING)) == len(columns(resource))
