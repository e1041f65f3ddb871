"""Rules that ConfigMaps and Secrets share.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateConfigMap, ValidateSecret.
"""

from __future__ import annotations

from sim.api.types import Obj
from sim.api.validation.errors import Errors, forbidden

DATA_BYTES_MAX = 1024 * 1024  # core.MaxSecretSize

_WHEN_IMMUTABLE = "field is immutable when `immutable` is set"


def decoded_size(value: str) -> int:
    """The number of bytes of a base64 text."""
    return len(value) * 3 // 4 - value.count("=", -2)


def immutable_data_errors(new: Obj, old: Obj, keys: tuple[str, ...], filled: tuple[str, ...] = ()) -> Errors:
    """Errors of a change of these fields while the stored object says that it is immutable.

    filled: those which are an empty map by default
    Quirk: an empty map of the others that is sent differs from none (reflect.DeepEqual).
    """
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _WHEN_IMMUTABLE)]
    return errors + [
        forbidden(key, _WHEN_IMMUTABLE)
        for key in keys
        if new.get(key) != (old.get(key) or None) and (key not in filled or new.get(key) or old.get(key))
    ]
