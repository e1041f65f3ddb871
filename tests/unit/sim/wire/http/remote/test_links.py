"""Links of pages and redirections behind a proxy."""

from __future__ import annotations

import time

import pytest

from sim.wire.http.remote.links import Proxied, joined, rewritten

WHERE = Proxied("10.1.0.9:80", "localhost:8001", "/api/v1/namespaces/a/pods/p/proxy")


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("/x", "{prefix}/x"),
        ("/x/", "{prefix}/x/"),
        ("/", "{prefix}/"),
        ("/x//y/../z?a=b#c", "{prefix}/x/z?a=b#c"),
        ("x", "x"),
        ("", ""),
        ("#here", "#here"),
        ("//elsewhere/x", "//elsewhere/x"),
        ("http://elsewhere/x", "http://elsewhere/x"),
        ("http://10.1.0.9:80/x", "{prefix}/x"),
        ("https://10.1.0.9/x", "https://10.1.0.9/x"),
        ("http://localhost:8001/x", "http://localhost:8001{prefix}/x"),
        ("{prefix}/x", "{prefix}/x"),
        ("http://[bad/x", "http://[bad/x"),
    ],
)
def test_link_of_the_program_leads_through_the_proxy(link: str, shown: str) -> None:
    assert WHERE.rewrite(link.format(prefix=WHERE.prefix)) == shown.format(prefix=WHERE.prefix)


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        (b"plain & simple", b"plain & simple"),
        (b"a < b <3 </p > x", b"a < b <3 </p > x"),
        (b"<A HREF=/x>", b'<a href="!/x">'),
        (b"<img src='/x' alt=\"it's\">", b'<img src="!/x" alt="it&#39;s">'),
        (b"<br/><input disabled src=/y />", b'<br/><input disabled="" src="!/y"/>'),
        (b"<b href=/x>", b'<b href="/x">'),
        (b"<script src=/s>if (a<b) '<a href=/x>'</script><a href=/x>",
         b'<script src="!/s">if (a<b) \'<a href=/x>\'</script><a href="!/x">'),
        (b"<!-- <a href=/x> --><a href=/y>", b'<!-- <a href=/x> --><a href="!/y">'),
        (b"<title><a href=/x>", b"<title><a href=/x>"),
        (b"<a href='/x", b""),
        (b"\xff<a href='/\xff'>", b'\xff<a href="!/\xff">'),
    ],
)  # fmt: skip
def test_page_has_its_links_rewritten_and_its_text_unchanged(page: bytes, shown: bytes) -> None:
    assert rewritten(page, lambda link: f"!{link}") == shown


@pytest.mark.parametrize(
    "part", [b"<a", b"<a href='", b"<!--", b"<script>", b"</script", b"<title></b>", b"<", b"<a b=c "]
)
def test_hostile_page_takes_linear_time(part: bytes) -> None:
    began = time.process_time()
    rewritten(part * 50_000, str)
    assert time.process_time() - began < 2


def test_paths_are_joined_without_needless_parts() -> None:
    assert [joined("/a", "b/"), joined("/a/", "/../b"), joined("", "")] == ["/a/b", "/b", ""]
