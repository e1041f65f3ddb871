"""Values in errors as the body held them."""

from __future__ import annotations

from sim.api.go.printing import LABEL_SELECTOR, QUANTITY, GoValue
from sim.api.kinds.common.errors import invalid
from sim.api.kinds.common.sent import as_sent
from sim.api.schema.decoding import decode
from sim.api.schema.field_validation import Sent
from sim.api.schema.scheme import Scheme
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
