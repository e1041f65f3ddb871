"""Which redirects of a server behind a webhook are followed, as Go's HTTP client does."""

import pytest

from sim.app.parts.webhooks import REDIRECTS_MAX, redirected
from sim.kernel import OutsideAnswer, OutsideRequest

ASKED = OutsideRequest("POST", "https://h/a", (("Content-Type", "x"), ("Accept", "y")), b"body")


@pytest.mark.parametrize(
    ("code", "place", "method", "url"),
    [
        (301, "/b", "GET", "https://h/b"),
        (302, "https://i/c", "GET", "https://i/c"),
        (303, "/b", "GET", "https://h/b"),
        (307, "/b", "POST", "https://h/b"),
        (308, "/b", "POST", "https://h/b"),
    ],
)
def test_redirect_repeats_the_body_only_where_the_code_says_so(
    code: int, place: str, method: str, url: str
) -> None:
    found = redirected(ASKED, OutsideAnswer(code, (("location", place),), b""), 0)
    assert found is not None and (found.method, found.url) == (method, url)
    assert found.body == (b"body" if method == "POST" else b"")
    assert ("Accept", "y") in found.headers


@pytest.mark.parametrize(
    ("code", "place", "followed"), [(301, "", 0), (304, "/b", 0), (307, "/b", REDIRECTS_MAX)]
)
def test_other_answers_are_not_followed(code: int, place: str, followed: int) -> None:
    assert redirected(ASKED, OutsideAnswer(code, (("location", place),), b""), followed) is None
