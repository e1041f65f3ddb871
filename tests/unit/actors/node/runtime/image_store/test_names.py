"""Names of images."""

import pytest

from actors.node.runtime.image_store.names import fault_of

LOWER = "invalid reference format: repository name must be lowercase"
BAD = "invalid reference format"


@pytest.mark.parametrize(("image", "fault"), [
    ("nginx", ""),
    ("nginx:1.25", ""),
    ("library/nginx:latest", ""),
    ("registry.example:5000/team/web_app:v1.2-rc_3", ""),
    ("Registry/web:1", ""),
    ("localhost/web@sha256:" + "0" * 64, ""),
    ("a__b--c/d.e", ""),
    ("NGINX:latest", LOWER),
    ("registry.example/Web:1", LOWER),
    ("web:", BAD),
    ("web:-1", BAD),
    ("web//x", BAD),
    ("web@sha256:12", BAD),
    ("we b", BAD),
    ("-web", BAD),
    ("web:" + "t" * 129, BAD),
    ("w" * 200 + "!", BAD),
    ("registry.example/" + "w-" * 100, BAD),
])  # fmt: skip
def test_image_name_is_a_lower_case_path_with_tag_or_digest(image: str, fault: str) -> None:
    assert fault_of(image) == fault
