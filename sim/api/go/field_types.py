"""The names that Go gives to the types of fields, for errors about values of a wrong type.

Turns `field_types.txt` into a table from (message, field) to the name of a type other than string,
int32 and the like: ("core.v1.Container", "imagePullPolicy") to "v1.PullPolicy".

Mirrors  kubernetes v1.25 staging api */types.go.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def _types() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in Path(__file__).with_name("field_types.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, *fields = line.split()
            found |= dict.fromkeys(fields, name)
    return found


def go_type_of(message: str, field: str) -> str:
    """The type of a field of a message, or of the items of its list; "" for a basic type."""
    return _types().get(f"{message}.{field}", "")
