"""The types of objects are those of the schema."""

from tests.tidy.typed_objects import TARGET, generated


def test_types_of_objects_have_the_fields_of_the_schema() -> None:
    assert TARGET.read_text() == generated()
