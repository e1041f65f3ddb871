"""The form of an answer by its Accept header."""

from __future__ import annotations

import pytest

from sim.ident import NAMES
from sim.wire.http.negotiation import NotAcceptable, check_route, choose

N = NAMES["kubernetes"]


@pytest.mark.parametrize("header", [";;", "text/html", ",", ";q=1"])
def test_header_without_a_media_range_is_not_acceptable(header: str) -> None:
    with pytest.raises(NotAcceptable, match="not acceptable"):
        check_route(N, header, False)
    with pytest.raises(NotAcceptable):
        choose(N, header, {}, convertible=False)


def test_absent_header_accepts_anything() -> None:
    check_route(N, "", False)
    assert choose(N, "", {}, convertible=False).media == N.media_json
