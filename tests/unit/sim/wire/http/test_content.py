"""Conditions on contents, and parts of them."""

import pytest

from sim.wire.http.pages.content import Content, NoOverlap, http_time, parse_ranges, serve, year_after

NOW_S = 1_700_000_000
TAGGED = Content(b"0123456789", "text/plain", '"tag"', NOW_S)


def answer(headers: dict[str, str], content: Content = TAGGED, method: str = "GET"):
    made = serve(content, method, lambda name: headers.get(name, ""))
    return made.code, made.body


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 200),
        ({"if-none-match": '"a", W/"tag"'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"a"', "if-modified-since": http_time(NOW_S)}, 200),
        ({"if-none-match": "tag"}, 200),
        ({"if-match": '"tag"'}, 200),
        ({"if-match": 'W/"tag"'}, 412),
        ({"if-match": '"a"'}, 412),
        ({"if-modified-since": http_time(NOW_S)}, 304),
        ({"if-modified-since": http_time(NOW_S - 1)}, 200),
        ({"if-modified-since": "junk"}, 200),
        ({"if-unmodified-since": http_time(NOW_S)}, 200),
        ({"if-unmodified-since": http_time(NOW_S - 1)}, 412),
        ({"if-match": '"tag"', "if-unmodified-since": http_time(0)}, 200),
    ],
)
def test_conditions_decide_before_the_content_is_sent(headers, code):
    assert answer(headers)[0] == code


def test_a_condition_on_tags_refuses_other_methods_than_reads():
    assert answer({"if-none-match": "*"}, method="POST")[0] == 412
    assert answer({"if-modified-since": http_time(NOW_S)}, method="POST")[0] == 200


def test_a_content_without_tag_matches_every_tag_only_by_the_star():
    untagged = TAGGED._replace(tag="")
    assert answer({"if-match": '""'}, untagged)[0] == 412
    assert answer({"if-none-match": "*"}, untagged)[0] == 304


@pytest.mark.parametrize(
    ("text", "code", "body"),
    [
        ("bytes=2-4", 206, b"234"),
        ("bytes=7-", 206, b"789"),
        ("bytes=-3", 206, b"789"),
        ("bytes=8-99", 206, b"89"),
        ("bytes=10-", 416, b"invalid range: failed to overlap\n"),
        ("bytes=4-2", 416, b"invalid range\n"),
        ("lines=1", 416, b"invalid range\n"),
        ("bytes=0-9,0-9", 200, b"0123456789"),
    ],
)
def test_parts_are_sent_as_asked(text, code, body):
    assert answer({"range": text}) == (code, body)


def test_several_parts_are_one_message_of_parts():
    made = serve(TAGGED, "GET", {"range": "bytes=0-1,4-5"}.get)  # type: ignore[arg-type]
    assert made.media.startswith("multipart/byteranges; boundary=")
    assert made.body.count(b"Content-Range: bytes") == 2
    assert b"bytes 4-5/10\r\nContent-Type: text/plain\r\n\r\n45\r\n" in made.body


def test_a_range_of_a_changed_content_gets_the_whole():
    assert answer({"range": "bytes=0-1", "if-range": '"tag"'}) == (206, b"01")
    assert answer({"range": "bytes=0-1", "if-range": '"old"'}) == (200, b"0123456789")
    assert answer({"range": "bytes=0-1", "if-range": http_time(NOW_S)}) == (206, b"01")


def test_a_range_behind_the_end_states_the_size():
    made = serve(TAGGED, "GET", {"range": "bytes=99-"}.get)  # type: ignore[arg-type]
    assert made.headers["Content-Range"] == "bytes */10"
    with pytest.raises(NoOverlap):
        parse_ranges("bytes=a-", 10)


def test_a_year_after_a_leap_day_is_the_first_of_march():
    assert http_time(year_after(1_709_164_800)) == "Sat, 01 Mar 2025 00:00:00 GMT"
    assert http_time(year_after(NOW_S)) == "Thu, 14 Nov 2024 22:13:20 GMT"
