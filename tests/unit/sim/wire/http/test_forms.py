"""Forms of answers and bodies: negotiation, YAML, tokens and options, over plain values."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest

from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES
from sim.wire.http.forms.body import BadBody, in_one, json_text
from sim.wire.http.forms.negotiation import Form, NotAcceptable, check_route, choose, error_form
from sim.wire.http.forms.rendering import warning_headers
from sim.wire.http.forms.yaml_json import YamlError, dump_yaml, load_yaml
from sim.wire.http.options import BadOption, check_options, manager_of
from sim.wire.http.routing import Target, parse_query
from sim.wire.stack import make_room

N = NAMES["kubernetes"]
PODS = Scheme(N).resource("pods")
JSON, YAML = N.media_json, N.media_yaml
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", Form(JSON)),
        ("*/*", Form(JSON)),
        ("text/html;q=0.9,*/*;q=0.1", Form(JSON)),
        (f"{JSON};q=0.1, {YAML};q=0.9", Form(YAML)),
        (f"{N.media_protobuf},{JSON}", Form(N.media_protobuf)),
        (f"{TABLE},{JSON}", Form(JSON, "Table", "v1")),
        (f"{JSON};as=Foo;v=v1;g=meta.k8s.io,{TABLE}", Form(JSON, "Table", "v1")),
        (f"{JSON};as=Table;v=v1;g=wrong.io,{JSON}", Form(JSON)),
    ],
)
def test_the_best_form_that_can_be_made_is_chosen(header: str, wanted: Form) -> None:
    assert choose(N, header, False, convertible=True) == wanted


@pytest.mark.parametrize("header", [f"{JSON};as=Table", "text/csv", f"{TABLE[:-13]};v=v9;g=meta.k8s.io"])
def test_a_form_that_cannot_be_made_is_406(header: str) -> None:
    with pytest.raises(NotAcceptable) as caught:
        choose(N, header, False, convertible=True)
    assert caught.value.body["code"] == 406


def test_a_route_knows_no_wildcard_of_a_type_and_no_capitals() -> None:
    for header in ("application/*", "APPLICATION/JSON", "foo"):
        with pytest.raises(NotAcceptable):
            check_route(N, header, False)
    check_route(N, f"text/html, {JSON}", False)


def test_an_error_comes_in_yaml_only_where_that_was_asked_for_first() -> None:
    assert error_form(N, YAML, False).media == YAML
    assert error_form(N, f"{JSON}, {YAML}", False).media == JSON
    assert error_form(N, "text/csv", False) == Form(JSON, pretty=True)


# --- YAML -----------------------------------------------------------------------------------------


def test_yaml_means_what_upstream_takes_it_for() -> None:
    text = b"a: y\nb: '1'\nc: 0o7\nd: 010\ne: 2020-01-01\nf: 1:30\n1: x\nfalse: z\ng: ~\nh: 1e3\ni: 08\n"
    assert load_yaml(text) == {
        "a": True,
        "b": "1",
        "c": 7,
        "d": 8,
        "e": "2020-01-01",
        "f": "1:30",
        "1": "x",
        "false": "z",
        "g": None,
        "h": 1000.0,
        "i": 8.0,
    }


def test_tags_of_ones_own_and_further_documents_are_passed_over() -> None:
    assert load_yaml(b"a: !mine x\nb: !mine [1, !mine {c: d}]\n---\na: [") == {"a": "x", "b": [1, {"c": "d"}]}
    assert load_yaml(b"a: !!binary aGk=") == {"a": "hi"}
    assert load_yaml(b"") is None


@pytest.mark.parametrize(
    "text",
    [
        b"a: !!python/object/apply:os.system [true]",
        b"a: !!binary aGk",
        b"a: !!set {x}",
        b"a: [",
        b"&a [*a]",
        b"? [1, 2]\n: x",
        b"\xff\xfe\xfa",
        b"[" * 5000,
    ],
)
def test_yaml_that_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(YamlError):
        load_yaml(text)


def test_aliases_that_multiply_are_refused() -> None:
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [b"a%d: &a%d [%b]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 9)]
    with pytest.raises(YamlError, match="aliasing"):
        load_yaml(b"\n".join(lines))


@pytest.mark.parametrize(
    "text",
    [
        b"a: &a " + b"x" * 100_000 + b"\nb: [" + b"*a, " * 5_000 + b"]",
        b"a: &a {" + b"x" * 1_000 + b": 1}\nb: [" + b"*a, " * 5_000 + b"]",
    ],
    ids=["texts", "keys"],
)
def test_aliases_that_multiply_letters_are_refused(text: bytes) -> None:
    with pytest.raises(YamlError, match="aliasing"):
        load_yaml(text)


def test_merged_maps_that_multiply_are_refused() -> None:
    lines = [b"a0: &a0 {k: v}"]
    lines += [b"a%d: &a%d {<<: [%b]}" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 12)]
    with pytest.raises(YamlError, match="aliasing"):
        load_yaml(b"\n".join(lines))


def test_maps_are_merged_the_first_named_first_and_a_maps_own_keys_before_all() -> None:
    text = b"a: &a {k: 1, l: 2}\nb: {<<: *a, l: 3}\nc: {l: 4, <<: [*a, {k: 7, m: 1}]}\nd: &d {<<: *d, k: 1}"
    merged = {"b": {"k": 1, "l": 3}, "c": {"k": 1, "m": 1, "l": 4}, "d": {"k": 1}}
    assert load_yaml(text) == {"a": {"k": 1, "l": 2}, **merged}


def test_numbers_without_end_are_floats_or_text_as_go_reads_them() -> None:
    text = (
        b"a: 18446744073709551615\nb: 18446744073709551616\nc: 1e999\nd: 0x"
        + b"f" * 20_000
        + b"\ne: "
        + b"9" * 5_000
    )
    numbers = {"a": (1 << 64) - 1, "b": 2.0**64, "c": "1e999", "d": "0x" + "f" * 20_000, "e": "9" * 5_000}
    assert load_yaml(text) == numbers


@pytest.mark.parametrize("text", [b"a: " + b"[" * 1_000_000, b"{a: " * 500_000, b"- " * 500_000])
def test_yaml_that_would_overflow_the_parsers_stack_is_refused(text: bytes) -> None:
    with pytest.raises(YamlError, match="exceeded max depth of 10000"):
        load_yaml(text)


def test_yaml_may_nest_as_deep_as_upstream_reads() -> None:
    make_room()
    lists = b"a: &x " + b"- " * 5_000 + b"{b: !t [~, *y]}"
    for text in (b"- " * 10_001 + b"1", b"a: &x " + b"[" * 10_000 + b"]" * 10_000):
        with pytest.raises(YamlError, match="exceeded max depth of 10000"):
            load_yaml(text)
    with pytest.raises(YamlError, match="unknown anchor 'y' referenced"):
        load_yaml(b"a:\n- " + lists[6:])
    value = load_yaml(b"y: &y {<<: {c: 1}, d: 2}\na:\n- " + lists[6:])["a"]
    for _ in range(5_001):
        (value,) = value
    assert value == {"b": [None, {"c": 1, "d": 2}]}
    made = load_yaml(b'{"a": ' * 10_000 + b"1" + b"}" * 10_000)
    for _ in range(10_000):
        made = made["a"]
    assert made == 1


_TEXTS = [
    "a",
    "",
    "true",
    "1e3",
    "é",
    "\u2028",
    "\x85",
    "\x7f",
    "\ufeff",
    "a: b",
    "a\\b",
    '"',
    "#",
    "<<",
    "😀",
    "k" * 1200,
]


def _drawn(dice: Random, depth: int = 0) -> Any:
    kind = dice.randrange(6)
    if depth > 3 or kind < 3:
        return dice.choice([0, -5, True, None, 1.5, 1e300, 2**63, 2**64, -(2**63) - 1, 10**30, *_TEXTS])
    below = [_drawn(dice, depth + 1) for _ in range(dice.randrange(4))]
    return below if kind == 3 else {dice.choice(_TEXTS): each for each in below}


@pytest.mark.parametrize("seed", range(300))
def test_json_text_is_read_as_the_yaml_that_it_is(seed: int) -> None:
    dice = Random(seed)
    wanted = {"a": _drawn(dice), dice.choice(_TEXTS): _drawn(dice)}
    between = dice.choice([(",", ":"), (", ", ": "), (" ,", " : ")])
    text = json.dumps(
        wanted, ensure_ascii=dice.random() < 0.5, indent=dice.choice([None, 1]), separators=between
    )
    spoilt = list(text)
    spoilt[dice.randrange(len(text))] = dice.choice(["\n", "\t", "e", ",", "a: ", "&a ", "!x "])
    for given in (text, "".join(spoilt)):
        read: list[Any] = []
        for start in ("", "---\n"):  # what JSON does not begin with
            try:
                read.append(load_yaml((start + given).encode()))
            except YamlError as error:
                read.append(re.sub(r"line \d+: ", "", str(error)))
        assert read[0] == read[1]


def test_duplicate_yaml_keys_are_reported_with_their_lines() -> None:
    twice: list[str] = []
    assert load_yaml(b'{"a": 1,\n"b": {"c": 1, "c": 2},\n"a": 2}', twice) == {"a": 2, "b": {"c": 2}}
    assert twice == ['line 2: key "c" already set in map', 'line 3: key "a" already set in map']
    assert in_one(twice) == "\n  ".join(["yaml: unmarshal errors:", *twice])
    assert in_one([]) == ""


_NO_TEXTS = [
    "y",
    "N",
    "on",
    "1e3",
    "08",
    "0o17",
    "0B1",
    "0X1f",
    "017",
    "1_0",
    "+1",
    "-0",
    "12:30",
    "2001-1-31",
    "2026-01-01T00:00:00Z",
    ".inf",
    ".nan",
    "~",
    "null",
    ".5",
    "5.",
]


@pytest.mark.parametrize("text", [*_NO_TEXTS, "2001-99-99", "=", "0o", "1e", "1.2.3"])
def test_text_that_would_be_read_as_something_else_is_quoted(text: str) -> None:
    printed = dump_yaml([text])
    assert load_yaml(printed) == [text]
    assert (b'"' in printed) == (text in _NO_TEXTS)


def test_yaml_is_printed_as_upstream_prints_it() -> None:
    shown = dump_yaml({"b": [{"x": ""}], "a": "true", "c": "1", "d": None, "e": {"f": []}})
    assert shown == b'a: "true"\nb:\n- x: ""\nc: "1"\nd: null\ne:\n  f: []\n'


# --- bodies and options ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "text/plain",
        "application/json,application/yaml",
        N.media_protobuf + "x",
        f"{JSON};a",
        f"{JSON};a=b;a=b",
    ],
)
def test_a_body_of_an_unknown_type_is_415(content: str) -> None:
    with pytest.raises(BadBody) as caught:
        json_text(N, Target(PODS, "create", "n"), content, b"{}")
    assert caught.value.body["code"] == 415


@pytest.mark.parametrize(
    "content",
    [
        "",
        JSON,
        N.media_merge_patch.title(),
        f"{N.media_merge_patch}, {JSON}",
        "text/plain",
        f"{N.media_merge_patch} ;a=b",
    ],
)
def test_a_patch_of_an_unknown_type_is_415(content: str) -> None:
    with pytest.raises(BadBody) as caught:
        json_text(N, Target(PODS, "patch", "n", "p"), content, b"{}")
    assert caught.value.body["code"] == 415


def test_a_yaml_body_becomes_json_text() -> None:
    assert (
        json_text(N, Target(PODS, "create", "n"), f"{YAML}; charset=utf-8", b"a: {b: 1}") == b'{"a":{"b":1}}'
    )


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (rb'"\ud800"', "\ufffd"),
        (rb'"a\udC00\ud83d\ude00"', "a\ufffd\U0001f600"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (rb'"\\ud800 \\\ud800x"', "\\ud800 \\\ufffdx"),
    ],
)
@pytest.mark.parametrize("verb", ["create", "patch"])
def test_half_a_character_is_read_as_upstream_reads_it(sent: bytes, read: str, verb: str) -> None:
    content = JSON if verb == "create" else N.media_merge_patch
    text = json_text(N, Target(PODS, verb, "n", "p"), content, b'{"a":%s}' % sent)
    assert text is not None and json.loads(text) == {"a": read}


def test_a_deletion_without_a_body_has_no_type_to_check() -> None:
    assert json_text(N, Target(PODS, "delete", "n", "p"), "text/plain", b"") is None


@pytest.mark.parametrize(
    ("verb", "query", "field"),
    [
        ("create", "dryRun=all", "dryRun"),
        ("create", "dryRun=All&dryRun=x", "dryRun"),
        ("create", "fieldManager=" + "m" * 129, "fieldManager"),
        ("create", "fieldManager=a%0Ab", "fieldManager"),
        ("update", "fieldValidation=strict", "fieldValidation"),
        ("patch", "force=true", "force"),
        ("delete", "propagationPolicy=orphan", "propagationPolicy"),
        ("delete", "propagationPolicy=Orphan&orphanDependents=true", "propagationPolicy"),
    ],
)
def test_an_option_that_means_nothing_is_422(verb: str, query: str, field: str) -> None:
    with pytest.raises(BadOption) as caught:
        check_options(N, Target(PODS, verb, "n", "p"), N.media_merge_patch, parse_query(query), query, None)
    assert caught.value.body["code"] == 422
    assert [cause["field"] for cause in caught.value.body["details"]["causes"]] == [field]


# --- access ---------------------------------------------------------------------------------------


def test_warnings_are_cut_where_all_are_too_long_and_no_control_gets_into_a_header() -> None:
    assert warning_headers(["b", "a", "b", "", "x\ny", 'q"\\é']) == [
        '299 - "b"',
        '299 - "a"',
        r'299 - "q\"\\é"',
    ]
    fitting = ["x" * 4000, "y" * 96]
    assert [len(value) for value in warning_headers(fitting)] == [4008, 104]
    assert [len(value) for value in warning_headers([*fitting, "z"])] == [264, 104, 9]
    many = warning_headers(f"{n:04}{'x' * 300}" for n in range(100))
    assert [len(value) for value in many] == [264] * 16


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("kubectl/v1.25 (linux)", "kubectl"),
        ("tab\there/1", "tabhere"),
        ("", "unknown"),
        ("/1", "unknown"),
        ("\t/1", "unknown"),
        ("a" * 200, "a" * 128),
        ("é" * 100, "é" * 64),
        ("a" + "é" * 100, "a" + "é" * 63),
    ],
)
def test_a_user_agent_stands_for_a_field_manager(agent: str, manager: str) -> None:
    assert manager_of(agent) == manager


def test_unprintable_manager_is_reported_in_go_quotes() -> None:
    target = Target(Scheme(N).resource("configmaps"), "create", "default")
    with pytest.raises(BadOption) as refused:
        check_options(N, target, "", parse_query(query := "fieldManager=%C3%A9%07"), query, None)
    message = 'Invalid value: "é\\a": invalid character U+0007 (at position 2)'
    assert [cause["message"] for cause in refused.value.body["details"]["causes"]] == [message]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"a: b\n c: d\n", "yaml: line 2: mapping values are not allowed in this context"),
        (b"{a: b\n", "yaml: line 1: did not find expected ',' or '}'"),
        (b"[", "yaml: line 1: did not find expected node content"),
        (b"a: *x\n", "yaml: unknown anchor 'x' referenced"),
        (b"a: !!int x\n", "yaml: cannot decode !!str `x` as a !!int"),
        (b"a: -.inf\n", "json: unsupported value: -Inf"),
        (b"? [a]\n: b\n", 'yaml: invalid map key: []interface {}{"a"}'),
        (b"~: b\n", 'Unsupported map key of type: %!s(<nil>), key: <nil>, value: "b"'),
    ],
)
def test_mistake_in_yaml_is_named_as_go_yaml_names_it(text: bytes, says: str) -> None:
    with pytest.raises(YamlError) as refused:
        load_yaml(text)
    assert str(refused.value) == says


def test_yaml_may_be_read_less_deep_than_the_stack_has_room_for() -> None:
    make_room()
    text = b"[" * 600 + b"]" * 600
    value = load_yaml(text)
    for _ in range(599):
        [value] = value
    assert value == []
    with pytest.raises(YamlError, match="yaml: exceeded max depth of 10000"):
        load_yaml(text, depth_max=500)
    with pytest.raises(YamlError, match="yaml: exceeded max depth of 10000"):
        load_yaml(b"- " * 700_000, depth_max=500)
