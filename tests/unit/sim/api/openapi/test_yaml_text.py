"""Values as YAML in protobuf forms."""

import pytest

from sim.api.openapi.gnostic import double, flag, message, some, text, whole
from sim.api.openapi.yaml_text import yaml_text


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("list", "list\n"),
        ("", '""\n'),
        ("true", '"true"\n'),
        ("1.5", '"1.5"\n'),
        ("2001-01-01", '"2001-01-01"\n'),
        ("yes", "yes\n"),
        ("a: b", "'a: b'\n"),
        ("a\nb", "|-\n    a\n    b\n"),
        (True, "true\n"),
        (None, "null\n"),
        (["p", "q"], "- p\n- q\n"),
        ({"a": {}, "b": []}, "a: {}\nb: []\n"),
        ({"b": ["x"], "a": {"c": 1}}, "b:\n    - x\na:\n    c: 1\n"),
        ([{"d": "t", "f": {"g": "h"}}], "- d: t\n  f:\n    g: h\n"),
        ([["x"]], "- - x\n"),
    ],
)
def test_values_are_printed_as_upstream_prints_them(value, wanted):
    assert yaml_text(value) == wanted


def test_fields_are_in_the_order_of_numbers_without_zeros():
    table = {"b": (1, whole), "a": (2, text), "c": (3, flag), "d": (4, double)}
    assert message({"a": "x", "b": 5}, table) == b"\x08\x05\x12\x01x"
    assert message({"a": "", "b": 0, "c": False, "d": 0}, table) == b""


def test_extensions_follow_the_members_by_name():
    assert message({"x-y": "z"}, {}, 3) == b"\x1a\x0b\x0a\x03x-y\x12\x04" + some("z")
