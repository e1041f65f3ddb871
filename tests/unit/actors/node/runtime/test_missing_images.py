"""Images that no registry holds."""

from __future__ import annotations

import pytest

from actors.node.runtime.missing_images import MISSING_IMAGES, pull_error
from actors.node.runtime.profile import RuntimeProfile


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ("nginx:404", "docker.io/library/nginx:404"),
        ("team/nonexistent", "docker.io/team/nonexistent:latest"),
        ("registry.example/non-existent:1", "registry.example/non-existent:1"),
    ],
)
def test_image_with_a_name_that_is_made_to_fail_is_not_found(image: str, reference: str) -> None:
    error = pull_error(image, MISSING_IMAGES)
    assert error == (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{reference}": '
        f'failed to resolve reference "{reference}": {reference}: not found'
    )


def test_registry_with_a_reserved_name_cannot_be_resolved() -> None:
    error = pull_error("invalid.example:5000/a/b:2", MISSING_IMAGES)
    assert error is not None and error.endswith(
        'failed to do request: Head "https://invalid.example:5000/v2/a/b/manifests/2": '
        "dial tcp: lookup invalid.example: no such host"
    )
    assert "code = Unknown" in error


def test_other_images_exist_and_a_scenario_may_say_otherwise() -> None:
    for image in ("nginx", "r/web:1", "nginx:4040", "registry.example/a@sha256:" + 64 * "4"):
        assert pull_error(image, MISSING_IMAGES) is None
    assert pull_error("nginx:404", ()) is None
    assert pull_error("nginx:1", ("nginx:*",)) is not None


def test_error_of_a_fault_precedes_that_of_the_name() -> None:
    assert RuntimeProfile(broken_images={"a:404": "denied"}).pull_error("a:404") == "denied"
