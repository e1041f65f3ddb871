"""PriorityLevelConfigurations.

Mirrors  kubernetes v1.25 pkg/apis/flowcontrol/validation/validation.go:
         ValidatePriorityLevelConfiguration; pkg/apis/flowcontrol/v1beta2/defaults.go.
"""

from __future__ import annotations

from math import ceil, log2

from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.flowcontrol.mandatory import level_spec_errors
from sim.api.kinds.flowcontrol.shared import (
    EXEMPT,
    FLOW,
    condition_errors,
    filled,
    validate_status,
    with_spec,
)
from sim.api.objects import get_in, name_of
from sim.api.schema.kind import STATUS, Cells, Kind, Lifecycle, Row
from sim.api.types import Json, Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, forbidden, invalid, required, unsupported
from sim.api.validation.metadata import object_meta
from sim.ident import Names

# --- defaults -------------------------------------------------------------------------------------


SHARES = 30

QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def _fill_defaults(obj: Obj) -> Obj:
    spec = obj.get("spec") or {}
    limited = spec.get("limited")
    if limited is not None:
        limited = filled(limited, {"assuredConcurrencyShares": SHARES})
        response = limited.get("limitResponse") or {}
        if response.get("queuing") is not None:
            response = {**response, "queuing": filled(response["queuing"], QUEUING)}
            limited = {**limited, "limitResponse": response}
        spec = {**spec, "limited": limited}
    return with_spec(obj, spec)


# --- validation -----------------------------------------------------------------------------------

QUEUES_MAX = 10_000_000  # validation.go: priorityLevelConfigurationQueuingMaxQueues

HASH_BITS = 60  # shufflesharding.go: MaxHashBits

POSITIVE = "must be positive"


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain) + _level_errors(obj)
    errors += level_spec_errors(obj["metadata"].get("name", ""), obj.get("spec") or {})
    return errors + condition_errors(obj)


def _validate_update(new: Obj, _old: Obj) -> Errors:
    return _validate_create(new)


def _level_errors(obj: Obj) -> Errors:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name")
    kind, limited = spec.get("type", ""), spec.get("limited")
    errors: Errors = []
    if (name == EXEMPT) != (kind == "Exempt"):
        detail = "type must be 'Exempt' if and only if name is 'exempt'"
        errors.append(invalid("spec.type", kind, detail))
    if kind == "Exempt":
        if limited is not None:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
    elif kind == "Limited":
        if limited is None:
            errors.append(required("spec.limited", "must not be empty when type is Limited"))
        else:
            errors += _limited_errors(limited)
    else:
        errors.append(unsupported("spec.type", kind, ("Exempt", "Limited")))
    return errors


def _limited_errors(limited: Obj) -> Errors:
    at = "spec.limited"
    errors = _positive_errors(limited, "assuredConcurrencyShares", at)
    response, at = limited.get("limitResponse") or {}, f"{at}.limitResponse"
    queuing = response.get("queuing")
    if response.get("type") == "Reject":
        if queuing is not None:
            detail = "must be nil if limited.limitResponse.type is not Limited"
            errors.append(forbidden(f"{at}.queuing", detail))
    elif response.get("type") == "Queue":
        if queuing is None:
            errors.append(
                required(f"{at}.queuing", "must not be empty if limited.limitResponse.type is Limited")
            )
        else:
            errors += _queuing_errors(queuing, f"{at}.queuing")
    else:
        errors.append(unsupported(f"{at}.type", response.get("type", ""), ("Queue", "Reject")))
    return errors


def _positive_errors(obj: Obj, key: str, at: str) -> Errors:
    value: Json = obj.get(key) or 0
    return [] if value > 0 else [invalid(f"{at}.{key}", value, POSITIVE)]


def _queuing_errors(queuing: Obj, at: str) -> Errors:
    errors = _positive_errors(queuing, "queueLengthLimit", at)
    queues, hand = queuing.get("queues") or 0, queuing.get("handSize") or 0
    errors += _positive_errors(queuing, "queues", at)
    if queues > QUEUES_MAX:
        errors.append(invalid(f"{at}.queues", queues, f"must not be greater than {QUEUES_MAX}"))
    if hand <= 0:
        return errors + _positive_errors(queuing, "handSize", at)
    if hand > queues:
        detail = f"should not be greater than queues ({queues})"
        return [*errors, invalid(f"{at}.handSize", hand, detail)]
    bits = _entropy_bits(queues, hand)
    if bits > HASH_BITS:
        detail = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        errors.append(invalid(f"{at}.handSize", hand, detail))
    return errors


def _entropy_bits(deck: int, hand: int) -> int:
    """Bits of a hash that deals a hand (shufflesharding.go, RequiredEntropyBits)."""
    return ceil(log2(deck) * hand)


# --- table ----------------------------------------------------------------------------------------


def _cells(o: Obj, now: int, _: Names) -> Cells:
    limited = get_in(o, ("spec", "limited"), {})
    queuing = get_in(limited, ("limitResponse", "queuing"), {})
    shown = [queuing.get(name, "<none>") for name in ("queues", "handSize", "queueLengthLimit")]
    shares = limited.get("assuredConcurrencyShares", "<none>")
    return [name_of(o), get_in(o, ("spec", "type"), ""), shares, *shown, age(o, now)]


_V1BETA2 = Row(
    "flowcontrol.apiserver",
    "v1beta2",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    namespaced=False,
    subs=(STATUS,),
    stored_version="v1beta2",
)
KIND = Kind(
    rows=(_V1BETA2, _V1BETA2._replace(version="v1beta1", lifecycle=Lifecycle(23, 26, "v1beta2"))),
    strategy=FLOW,
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": validate_status},
    columns=(
        NAME,
        "Type=spec.type",
        "AssuredConcurrencyShares=spec.limited.assuredConcurrencyShares",
        "Queues=spec.limited.limitResponse.queuing.queues",
        "HandSize=spec.limited.limitResponse.queuing.handSize",
        "QueueLengthLimit=spec.limited.limitResponse.queuing.queueLengthLimit",
        AGE,
    ),
    cells=_cells,
)
