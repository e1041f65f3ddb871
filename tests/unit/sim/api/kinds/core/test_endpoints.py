"""The table row of Endpoints."""

from sim.api.kinds.tables import cells
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

NAMING = NAMES["kubernetes"]

SCHEME = Scheme(NAMING)


def test_endpoints_row_shows_three_addresses_and_the_number_of_others():
    subsets = [{"addresses": [{"ip": str(i)} for i in range(5)], "ports": [{"port": 80}]}]
    shown = cells(SCHEME.resource("endpoints"), {"metadata": {}, "subsets": subsets}, 0, NAMING)[1]
    assert shown == "0:80,1:80,2:80 + 2 more..."
