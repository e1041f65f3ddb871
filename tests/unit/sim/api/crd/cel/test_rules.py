"""What rules say about an object, and what they cost: each line was answered by upstream v1.25."""

from typing import Any

import pytest

from sim.api.crd.cel import syntax
from sim.api.crd.cel.functions import IMPLEMENTED
from sim.api.crd.cel.rules import BUDGET, cardinality, compiled, default_errors, rule_errors
from sim.api.crd.cel.values import value_of
from sim.api.crd.structural import structural
from sim.api.types import Obj

FIELDS: Obj = {
    "i": {"type": "integer"},
    "s": {"type": "string"},
    "s9": {"type": "string", "maxLength": 9},
    "d": {"type": "number"},
    "b": {"type": "boolean"},
    "l": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 10},
    "li": {"type": "array", "items": {"type": "integer"}},
    "m": {"type": "object", "additionalProperties": {"type": "integer"}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    "ml": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object",
            "required": ["k"],
            "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        },
    },
    "ios": {"x-kubernetes-int-or-string": True},
    "t": {"type": "string", "format": "date-time"},
    "dur": {"type": "string", "format": "duration"},
    "by": {"type": "string", "format": "byte"},
    "n": {"type": "string", "nullable": True},
    "o": {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "a-b": {"type": "string"}, "namespace": {"type": "string"}},
    },
    "e": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
OBJECT: Obj = {
    "i": 5,
    "s": "hello",
    "s9": "abc",
    "d": 1.5,
    "b": True,
    "l": ["a", "b", "c"],
    "li": [3, 1, 2],
    "m": {"a": 1, "b": 2},
    "set": ["x", "y"],
    "ml": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
    "ios": "50%",
    "t": "2020-01-02T03:04:05.5Z",
    "dur": "1h30m",
    "by": "aGVsbG8=",
    "n": None,
    "o": {"x": 1, "a-b": "q", "namespace": "ns"},
    "e": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "z"}},
}
NO_OVERLOAD = (
    "'no such overload': call arguments did not match a supported operator, function or macro signature"
)


def schema(*rules: Any, **fields: Obj) -> Obj:
    """A schema of objects with rules."""
    listed = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    return {"type": "object", "properties": fields or FIELDS, "x-kubernetes-validations": listed}


def said(raw: Obj, obj: Obj, old: Obj | None = None) -> list[str]:
    """The errors of an object."""
    return [f"{error.field}: {error.message}" for error in rule_errors(structural(raw), obj, old)]


HOLD = """
self.i == 5
self.i in [1, 5] && self.s in ['hello', 'x']
has(self.s) && self.s == 'hello'
!has(self.n)
self.l.all(x, x < 'd') && self.l.exists(x, x == 'b') && self.l.exists_one(x, x == 'b')
self.l.map(x, x + 'z') == ['az', 'bz', 'cz']
self.l.filter(x, x > 'a').size() == 2
self.li.map(x, x > 1, x * 2) == [6, 4]
self.li.sum() == 6 && self.li.max() == 3 && self.li.min() == 1 && !self.li.isSorted()
self.li.indexOf(2) == 2 && self.li.lastIndexOf(9) == -1
self.m.all(k, self.m[k] > 0) && 'a' in self.m && self.m == {'a': 1, 'b': 2}
self.set == ['y', 'x']
self.set + ['x', 'z'] == ['x', 'y', 'z']
self.ml + self.ml == self.ml
self.ml.map(e, e.k).join('-') == 'a-b'
type(self.ios) == int ? self.ios > 5 : self.ios.matches('^[0-9]+%$')
self.t > timestamp('2019-01-01T00:00:00Z') && self.t.getFullYear() == 2020 && self.t.getHours() == 3
self.t.getMilliseconds() == 500 && self.t.getHours('+02:00') == 5
self.t.getHours('Asia/Kolkata') == 8 && timestamp('9999-12-31T23:59:59Z').getHours('UTC') == 23
!(self.n in ['a', 'b']) && !(self.n in [])
string(self.t) == '2020-01-02T03:04:05.5Z'
self.dur > duration('1h') && self.dur.getMinutes() == 90 && string(self.dur) == '5400s'
string(duration('1ns')) == '0.000000001s' && string(duration('-1h0.5s')) == '-3600.5s'
self.t - self.t == duration('0s') && self.t - self.dur < self.t
self.by == b'hello' && string(self.by) == 'hello'
self.o.a__dash__b == 'q' && self.o.__namespace__ == 'ns'
self.e.metadata.name == 'z' && self.e.kind == 'Pod'
url('https://a.b:80/p?x=1').getPort() == '80' && url('https://[::1]/').getHostname() == '::1'
url('https://a/b c').getEscapedPath() == '/b%20c' && url('/a?k=1&k=2').getQuery()['k'] == ['1', '2']
isURL('https://x') && !isURL('x y')
self.s.find('l+') == 'll' && self.s.findAll('l').size() == 2
'a1b22'.findAll('[0-9]*', 2) == ['', '1']
self.s.substring(1, 3) == 'el' && self.s.upperAscii() == 'HELLO' && self.s.charAt(1) == 'e'
self.s.replace('l', 'L', 1) == 'heLlo' && self.s.split('l') == ['he', '', 'o']
self.s.indexOf('l') == 2 && self.s.lastIndexOf('l') == 3
double('1.5') == self.d && self.d > 1.0 && int(1.9) == 1
1u + 2u == 3u && -7 / 2 == -3 && -7 % 2 == -1
string(1.5) == '1.5' && string(123456789.0) == '1.23456789e+08'
self.i / 0 > 1 || self.i > 0
self.l.exists(x, x == 'c' || self.li[7] == 1)
"""


def test_rules_that_hold_find_no_error() -> None:
    rules = [line for line in HOLD.splitlines() if line]
    assert said(schema(*rules), OBJECT) == []


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("self.i > 5", "failed rule: self.i > 5"),
        ("self.s9 == 'x' ", "failed rule: self.s9 == 'x'"),
        ("self.m['zz'] == 1", "no such key: zz evaluating rule: self.m['zz'] == 1"),
        ("self.metadata.name == ''", "no such key: metadata evaluating rule: self.metadata.name == ''"),
        ("self.l[7] == 'a'", "index out of bounds: 7 evaluating rule: self.l[7] == 'a'"),
        ("self.i / 0 == 1", "division by zero evaluating rule: self.i / 0 == 1"),
        ("self.i % 0 == 1", "modulus by zero evaluating rule: self.i % 0 == 1"),
        (
            "self.i + 9223372036854775807 > 0",
            "integer overflow evaluating rule: self.i + 9223372036854775807 > 0",
        ),
        (
            "int(self.s) == 1",
            "type conversion error from 'string' to 'int' evaluating rule: int(self.s) == 1",
        ),
        (
            "duration(self.i) == duration('5s')",
            "type conversion error from 'int' to 'google.protobuf.Duration' "
            "evaluating rule: duration(self.i) == duration('5s')",
        ),
        ("self.ios > 5", f"{NO_OVERLOAD} for rule: self.ios > 5"),
        ("self.n in [self.s]", "no such key: n evaluating rule: self.n in [self.s]"),
        ("self.t.getHours('x') == 1", "unknown time zone x evaluating rule: self.t.getHours('x') == 1"),
        ("self.n.size() == 0", "no such key: n evaluating rule: self.n.size() == 0"),
        ("self.s.substring(9) == ''", "index out of range: 9 evaluating rule: self.s.substring(9) == ''"),
        (
            "url(self.s).getHost() == ''",
            'URL parse error during conversion from string: parse "hello": invalid URI for request '
            "evaluating rule: url(self.s).getHost() == ''",
        ),
        (
            "self.l.join(',') == 'a,b,c'",
            "internal error: interface conversion: interface {} is []interface {}, not []string "
            "evaluating rule: self.l.join(',') == 'a,b,c'",
        ),
    ],
)
def test_failed_rule_is_an_error_in_upstreams_words(rule: str, error: str) -> None:
    assert said(schema(rule), OBJECT) == [f'<nil>: Invalid value: "object": {error}']


def at(line: int, column: int, text: str, error: str) -> str:
    """An error of compilation."""
    return f"compilation failed: ERROR: <input>:{line}:{column}: {error}\n | {text}\n | {'.' * (column - 1)}^"


@pytest.mark.parametrize(
    ("rule", "column", "error"),
    [
        ("self.zz == 1", 5, "undefined field 'zz'"),
        ("x", 1, "undeclared reference to 'x' (in container '')"),
        ("self.s + 1 == 'a'", 8, "found no matching overload for '_+_' applied to '(string, int)'"),
        ("self.i > 1.0", 8, "found no matching overload for '_>_' applied to '(int, double)'"),
        ("self.s.foo()", 11, "undeclared reference to 'foo' (in container '')"),
        ("self.i.x == 1", 7, "type 'primitive:INT64' does not support field selection"),
        ("[1, 'a'].size() == 2", 5, "expected type 'int' but found 'string'"),
        ("has(self)", 4, "invalid argument to has() macro"),
        ("self.l.map(1, true)", 11, "argument is not an identifier"),
        ("self.l.all(1, true)", 12, "argument must be a simple name"),
        (
            "self.i.all(x, true)",
            5,
            "expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("self.", 6, "Syntax error: missing IDENTIFIER at '<EOF>'"),
        ("self.true", 6, "Syntax error: mismatched input 'true' expecting IDENTIFIER"),
        ("self.?s == 'a'", 6, "Syntax error: extraneous input '?' expecting IDENTIFIER"),
        ("a{1:2}", 3, "Syntax error: mismatched input '1' expecting {'}', ',', IDENTIFIER}"),
        (
            "self.i ==",
            10,
            "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', "
            "'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
    ],
)
def test_rule_that_does_not_compile_is_shown_with_its_place(rule: str, column: int, error: str) -> None:
    (found,) = compiled(structural(schema(rule)), True)[1]
    assert found.error == at(1, column, rule, error)


def test_rules_that_are_no_programs_are_refused() -> None:
    errors = [
        one.error
        for one in compiled(structural(schema("self.s", "int('a') == 1", "self.s.find('(') == ''")), True)[1]
    ]
    assert errors == [
        "cel expression must evaluate to a bool",
        "program instantiation failed: type conversion error from 'string' to 'int'",
        "program instantiation failed: error parsing regexp: missing closing ): `(`",
    ]


def test_without_the_parser_a_rule_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> syntax.Parsed:
        raise syntax.NoParser

    monkeypatch.setattr(syntax, "parse", missing)
    (found,) = compiled(structural(schema("true")), True)[1]
    assert syntax.PARSER in found.error


@pytest.mark.parametrize(
    ("rule", "most", "taken"),
    [
        ("self.i > 5", 3, 3),
        ("self.s == 'hello'", 3, 3),
        ("self.l.all(x, x == 'a')", 53, 15),
        ("self.l.map(x, x + x).join(',') == ''", 1844674407370955457, 50),
        ("self.s.matches('a+')", 314575, 3),
        ("self.m.all(k, self.m[k] > 0)", 3595115, 17),
        ("self.s.split(',').size() == 1", 629150, 5),
        ("self.l.exists(x, x in self.set)", 10485823, 30),
        ("self.b ? self.s == 'a' : self.l == self.set", 7, 5),
    ],
)
def test_costs_are_estimated_and_counted_as_upstream_does(rule: str, most: int, taken: int) -> None:
    kind, (found,) = compiled(structural(schema(rule)), True)
    assert found.program is not None and kind is not None
    outcome = found.program.run(value_of(OBJECT, structural(schema())))
    assert (found.cost, outcome.cost) == (most, taken)


def test_transition_rules_run_where_the_old_value_is_found() -> None:
    grows = [{"rule": "self >= oldSelf"}]
    fields: Obj = {
        "n": {"type": "integer", "x-kubernetes-validations": grows},
        "m": {
            "type": "object",
            "additionalProperties": {"type": "integer", "x-kubernetes-validations": grows},
        },
        "l": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "shrinks"}],
            },
        },
    }
    raw: Obj = {"type": "object", "properties": fields}
    new = {"n": 1, "m": {"a": 1, "b": 1}, "l": [{"k": "x", "v": 1}, {"k": "y", "v": 1}, {"k": "z", "v": 0}]}
    old = {"n": 2, "m": {"a": 2}, "l": [{"k": "y", "v": 5}, {"k": "x", "v": 0}]}
    assert said(raw, new) == []
    assert said(raw, new, old) == [
        'n: Invalid value: "integer": failed rule: self >= oldSelf',
        'm[a]: Invalid value: "integer": failed rule: self >= oldSelf',
        'l[1]: Invalid value: "object": shrinks',
    ]


def test_rule_that_takes_too_much_ends_all_rules() -> None:
    pairs = "self.l.all(x, self.l.all(y, self.l.all(z, x != y || y != z || x == z)))"
    raw = schema(pairs, "false", l={"type": "array", "items": {"type": "integer"}})
    (error,) = said(raw, {"l": list(range(100))})
    assert "'operation cancelled: actual cost limit exceeded': no further validation rules" in error


def test_rules_of_an_object_share_one_budget() -> None:
    item: Obj = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > -1"}]}
    raw = structural({"type": "array", "items": item, "default": list(range(10))})
    errors, left = default_errors(raw, False, "x.default", 11)
    assert left == -1
    assert [(error.field, error.message) for error in errors] == [
        (
            "x.default[5]",
            'Invalid value: "integer": validation failed due to running out of cost budget, no further '
            "validation rules will be run",
        )
    ]
    assert default_errors(raw, False, "x.default", BUDGET) == ([], BUDGET - 20)


def test_unbounded_values_can_fill_a_request() -> None:
    kind, _ = compiled(structural({"type": "string", "x-kubernetes-validations": [{"rule": "true"}]}), False)
    assert kind is not None and cardinality(kind) == 3 * 1024 * 1024 // 3


def test_loop_evaluates_what_its_items_do_not_change_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(text: str) -> str:
        calls.append(text)
        return text

    monkeypatch.setitem(IMPLEMENTED, "trim", counted)
    rules = "self.l.all(x, self.l.all(y, self.s.trim() != x && x.trim() != 'z'))"
    _, (found,) = compiled(structural(schema(rules)), True)
    assert found.program is not None
    outcome = found.program.run(value_of(OBJECT, structural(schema())))
    assert outcome.value is True and calls == ["hello", "a", "b", "c"]
    assert outcome.cost == 2 + 3 * (3 + 2 + 3 * (3 + 5 + 3) + 1) + 1  # as if all were evaluated


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("self.l.all(x, x == 'a' || self.i / 0 == 1)", "division by zero"),
        ("self.l.all(x, self.i / 0 == 1 || x == 'c')", "division by zero"),
        ("self.l.exists(x, self.i / 0 == 1 && x == 'b')", "division by zero"),
    ],
)
def test_remembered_failure_fails_again(rule: str, error: str) -> None:
    assert said(schema(rule), OBJECT) == [f'<nil>: Invalid value: "object": {error} evaluating rule: {rule}']


def test_text_that_would_be_too_large_is_refused() -> None:
    raw = schema("self.s.replace('', self.s).size() > 0", s={"type": "string"})
    (error,) = said(raw, {"s": "a" * 40_000})
    assert "the text would have more than" in error
