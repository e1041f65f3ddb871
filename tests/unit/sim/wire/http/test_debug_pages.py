"""The pages below /debug that need no measurement."""

import logging

import pytest

from sim.wire.http.pages.pprof import flags_page, pprof_page, set_verbosity


def test_root_of_profiles_leads_to_its_page_and_shows_a_link_to_readers_only() -> None:
    read, sent = pprof_page("GET", "/debug/pprof"), pprof_page("POST", "/debug/pprof")
    assert read is not None
    assert sent is not None
    assert (read.code, sent.code, sent.raw, sent.media) == (302, 302, b"", "")
    assert read.headers == sent.headers == {"Location": "/debug/pprof/"}
    assert b"Found" in read.raw


def test_flags_are_listed_and_the_verbosity_is_not_read() -> None:
    listed = flags_page("/debug/flags/nope")
    assert listed is not None
    assert (listed.code, listed.media) == (200, "text/html; charset=utf-8")
    refused = flags_page("/debug/flags/v")
    assert refused is not None
    assert (refused.code, refused.raw) == (406, b"unsupported http method\n")
    assert flags_page("/debug/flagsx") is None


@pytest.mark.parametrize(
    ("text", "code", "answer"),
    [
        ("6", 200, "successfully set klog.logging.verbosity to 6"),
        ("-1", 200, "successfully set klog.logging.verbosity to -1"),
        ("x", 400, 'x: strconv.ParseInt: parsing "x": invalid syntax'),
        ("", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
        ("2147483648", 400, 'strconv.ParseInt: parsing "2147483648": value out of range'),
    ],
)
def test_a_verbosity_is_set_if_it_is_a_number_of_32_bits(text: str, code: int, answer: str):
    logger = logging.getLogger("sim")
    before = logger.level
    try:
        made = set_verbosity(text)
        assert (made.code, made.raw.decode().strip().endswith(answer)) == (code, True)
        if text == "6":
            assert logger.level == logging.DEBUG
    finally:
        logger.setLevel(before)
