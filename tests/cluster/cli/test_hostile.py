"""A served cluster under hostile requests (`tests.bench.hostile` sends more of them and looks at
times, too).
"""

from __future__ import annotations

import pytest

from tests.bench.hostile import CLIENTS, Bystander, attacked
from tests.bench.serving import served

REQUESTS = 500


@pytest.mark.slow
def test_hostile_requests_meet_no_defect_and_every_client_is_answered() -> None:
    with served() as server:
        bystander = Bystander(server)
        try:
            found = attacked(server, 7, REQUESTS)
        finally:
            bystander.end()
        log = server.log()
    assert found.bad == []
    assert found.lost == []
    assert log == ""
    assert bystander.wrong == []
    assert sum(found.codes.values()) == REQUESTS // CLIENTS * CLIENTS
