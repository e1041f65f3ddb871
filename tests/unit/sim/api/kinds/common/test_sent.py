"""Values in errors as the body held them."""

from __future__ import annotations

from sim.api.go.printing import LABEL_SELECTOR, QUANTITY, GoValue
from sim.api.kinds.common.sent import as_judged, as_sent, with_differences
from sim.api.schema.decoding import decode
from sim.api.schema.field_validation import Sent
from sim.api.scheme.scheme import Scheme
from sim.api.validation.errors import forbidden, invalid
from sim.ident import NAMES

SETS = Scheme(NAMES["kubernetes"]).resource("replicasets")


def test_empty_selector_is_shown_as_it_was_sent() -> None:
    """encoding/json: an empty map is not nil."""
    sent = decode(SETS, {"spec": {"selector": {"matchLabels": {}, "matchExpressions": []}}}).sent
    (error,) = as_sent([invalid("spec.selector", GoValue(LABEL_SELECTOR, {}), "x")], sent)
    assert error.value == (
        "v1.LabelSelector{MatchLabels:map[string]string{}, MatchExpressions:[]v1.LabelSelectorRequirement{}}"
    )
    (other,) = as_sent([invalid("spec.other", GoValue(LABEL_SELECTOR, {}), "x")], sent)
    assert other.value == GoValue(LABEL_SELECTOR, {}).text


def test_quantity_is_shown_as_it_was_parsed() -> None:
    """quantity.go: a text that is not canonical is not kept."""
    errors = [invalid("f", GoValue(QUANTITY, "500m"), "x"), invalid("f", "500m", "x")]
    shown = as_sent(errors, Sent({"500m": "0.5"}, ()))
    assert [error.value for error in shown] == [GoValue(QUANTITY, "0.5").text, '"500m"']
    assert "value:5, scale:-1}" in shown[0].value and 's:""' in shown[0].value


def test_empty_list_inside_of_a_value_is_shown_as_it_was_sent() -> None:
    body = {"spec": {"template": {"spec": {"containers": [{"name": "c", "ports": [], "args": None}]}}}}
    decoded = decode(Scheme(NAMES["kubernetes"]).resource("jobs"), body)
    given = GoValue("core.PodTemplateSpec", decoded.obj["spec"]["template"])
    (error,) = as_sent([invalid("spec.template", given, "x")], decoded.sent)
    assert "Ports:[]core.ContainerPort{}, " in error.value
    assert "Args:[]string(nil), " in error.value


def test_rules_by_reflection_distinguish_an_empty_list_from_none() -> None:
    """validation.go, validateFieldAllowList: a field is compared with the zero of its type."""
    kept = {"containers": [{"name": "c", "image": "i", "ports": []}]}
    template = {"metadata": {"ownerReferences": []}, "spec": {}}
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    ephemeral = [{"name": "e", "ports": [], "resources": {"limits": {}}, "env": []}]
    body = {"spec": {**kept, "volumes": volumes, "ephemeralContainers": ephemeral}}
    decoded = decode(Scheme(NAMES["kubernetes"]).resource("pods"), body)
    spec = as_judged("pods", decoded.obj, decoded.sent)["spec"]
    assert spec["ephemeralContainers"] == [{"name": "e", "ports": {}, "resources": {"limits": {}}}]
    assert spec["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["metadata"] == {"ownerReferences": {}}
    assert spec["containers"] == [{"name": "c", "image": "i"}]
    assert as_judged("pods", decoded.obj, None) is decoded.obj


def test_several_differences_of_one_field_keep_their_order() -> None:
    errors = [forbidden("spec.x", f"{name} may not be removed\n") for name in ("two", "dbg")]
    sent = Sent({}, ("spec.y",))
    assert with_differences(errors, {"spec": {}}, sent, lambda _: errors) == errors
