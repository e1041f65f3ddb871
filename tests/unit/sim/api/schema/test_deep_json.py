"""JSON texts of any depth."""

import pytest

from sim.api.schema.deep_json import NESTING_MAX, cut


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b'{"a": [1, {"b": [2, [3]]}], "c": "]"}', b'{"a": [1, {}], "c": "]"}'),
        (b"[[[1], [2]], 3]", b"[[[], []], 3]"),
        (b' {"a": "\\u0041[", "b": -1.5e3} ', b' {"a": "\\u0041[", "b": -1.5e3} '),
        (b"[[[1,]]]", None),
        (b'[[[{"a" 1}]]]', None),
        (b"[[[1]]", None),
        (b"[[[nul]]]", None),
        (b"[[[1]]]]", None),
        (b'[[["\x01"]]]', None),
        (b"[[[1}]]", None),
        (b"", None),
        (b"3", b"3"),
    ],
)
def test_text_is_cut_below_a_depth_and_checked_as_a_whole(text, wanted):
    assert cut(text, 2) == wanted


def test_text_as_deep_as_upstream_reads_is_cut_and_a_deeper_one_is_refused():
    assert cut(b"[" * NESTING_MAX + b"]" * NESTING_MAX, 1) == b"[[]]"
    assert cut(b"[" * (NESTING_MAX + 1) + b"]" * (NESTING_MAX + 1), 1) is None
