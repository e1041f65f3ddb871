"""Classes with many attributes stay few, and give the reason (`tests.tidy.house`)."""

from tests.tidy.house import large_classes, large_classes_without_reason

LARGE_MAX, UNEXPLAINED_MAX = 10, 2


def test_classes_with_many_attributes_stay_few() -> None:
    assert len(list(large_classes())) <= LARGE_MAX


def test_classes_with_many_attributes_give_the_reason() -> None:
    assert len(list(large_classes_without_reason())) <= UNEXPLAINED_MAX
