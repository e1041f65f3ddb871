"""Values as Go prints them."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.go.printing import ANY, GoValue, go_float, go_syntax


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("core.Taint", {"key": "a"}, 'core.Taint{Key:"a", Value:"", Effect:"", TimeAdded:<nil>}'),
        (
            "core.Taint",
            {"timeAdded": "2022-08-01T02:03:04Z"},
            'core.Taint{Key:"", Value:"", Effect:"", TimeAdded:time.Date(2022, time.August, 1, 2, 3, 4, 0, time.Local)}',
        ),
        ("[]core.ResourceQuotaScope", None, "[]core.ResourceQuotaScope(nil)"),
        ("[]core.ResourceQuotaScope", [], "[]core.ResourceQuotaScope{}"),
        ("[]int32", [1, 2], "[]int32{1, 2}"),
        ("core.ResourceList", {}, "core.ResourceList{}"),
        ("map[string]string", {"b": "2", "a": '"'}, 'map[string]string{"a":"\\"", "b":"2"}'),
        ("[]byte", b"\x01\xff", "[]byte{0x1, 0xff}"),
        ("intstr.IntOrString", "5%", 'intstr.IntOrString{Type:1, IntVal:0, StrVal:"5%"}'),
        (
            "core.HTTPGetAction",
            {"port": 80},
            'core.HTTPGetAction{Path:"", Port:intstr.IntOrString{Type:0, IntVal:80, StrVal:""}, Host:"", '
            'Scheme:"", HTTPHeaders:[]core.HTTPHeader(nil)}',
        ),
        ("*core.PodOS", {"name": "linux"}, '&core.PodOS{Name:"linux"}'),
        ("*core.PodOS", None, "(*core.PodOS)(nil)"),
        (
            ANY,
            {"a": [1, None, 0.5]},
            'map[string]interface {}{"a":[]interface {}{1, interface {}(nil), 0.5}}',
        ),
        (ANY, None, "<nil>"),
    ],
)
def test_go_syntax_of_value(kind: str, value: Any, text: str) -> None:
    assert go_syntax(kind, value) == text


def test_pointers_inside_of_struct_are_addresses() -> None:
    text = go_syntax("core.Toleration", {"key": "a", "tolerationSeconds": 5})
    assert text.endswith("TolerationSeconds:(*int64)(0xc000000000)}")
    assert go_syntax("core.Toleration", {}).endswith("TolerationSeconds:(*int64)(nil)}")


def test_embedded_struct_holds_fields_of_the_object_around_it() -> None:
    text = go_syntax("core.Volume", {"name": "v", "emptyDir": {}})
    assert text.startswith('core.Volume{Name:"v", VolumeSource:core.VolumeSource{HostPath:(*core.HostPath')
    assert "EmptyDir:(*core.EmptyDirVolumeSource)(0xc000000000)" in text


def test_metadata_of_template_are_an_embedded_struct() -> None:
    text = go_syntax("core.PodTemplateSpec", {"metadata": {"labels": {"a": "b"}}})
    assert 'Labels:map[string]string{"a":"b"}' in text
    assert text.startswith('core.PodTemplateSpec{ObjectMeta:v1.ObjectMeta{Name:""')


def test_namespaces_of_host_are_in_the_internal_security_context() -> None:
    """conversion.go: Convert_v1_PodSpec_To_core_PodSpec makes the context in any case."""
    assert "SecurityContext:(*core.PodSecurityContext)(0x" in go_syntax("core.PodSpec", {})


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("*v1.LabelSelector", None, '"null"'),
        (
            "*v1.LabelSelector",
            {"matchLabels": {}},
            "v1.LabelSelector{MatchLabels:map[string]string{}, MatchExpressions:[]v1.LabelSelectorRequirement(nil)}",
        ),
        ("v1.Time", None, "0001-01-01 00:00:00 +0000 UTC"),
        ("v1.MicroTime", "2022-08-01T02:03:04.500000Z", "2022-08-01 02:03:04.5 +0000 UTC"),
        (ANY, None, '"null"'),
        (ANY, "x", '"x"'),
        (ANY, True, "true"),
    ],
)
def test_error_shows_pointers_as_values_and_times_by_their_text(kind: str, value: Any, text: str) -> None:
    assert GoValue(kind, value).text == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (123456.0, "123456"), (1234567.0, "1.234567e+06"), (1e-5, "1e-05")]
)
def test_float_has_an_exponent_from_six_digits_on(value: float, text: str) -> None:
    assert go_float(value) == text
