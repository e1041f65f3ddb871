"""The size of a YAML text is known before its values are built."""

from __future__ import annotations

import pytest

from sim.errors import InputError
from sim.nesting import holds_too_many
from sim.scenario.read.source import VALUES_MAX, parse_documents


@pytest.mark.parametrize(
    ("text", "too_many"),
    [
        ("- 1\n" * 9, False),
        ("- 1\n" * 30, True),
        ("[" + "1, " * 30 + "1]", True),
        ("--- 1\n" * 30, True),
        ("".join(f"key{number}: 1\n" for number in range(30)), True),
        ("text: |\n" + "  line\n" * 30, False),
        ("]\n" * 30, False),
    ],
)
def test_text_holds_too_many_values_by_its_nodes(text: str, too_many: bool) -> None:
    assert holds_too_many(text, 10) is too_many


@pytest.mark.slow
def test_document_of_too_many_values_is_refused_for_its_size() -> None:
    with pytest.raises(InputError, match=f"holds more than {VALUES_MAX} values"):
        list(parse_documents("[" + "1," * (2 * VALUES_MAX) + "1]", "large.yaml"))
