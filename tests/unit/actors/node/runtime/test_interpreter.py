"""Which containers the interpreter runs: those with a known program that does something."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.runtime.interpreter import Interpreter, interpreter

KNOWN = Interpreter(dict.fromkeys(("sh", "cat", "sleep", "tail", "true")))


def sh(script: str, image: str = "mine") -> dict[str, Any]:
    return {"image": image, "command": ["sh", "-c", script]}


@pytest.mark.parametrize(
    ("container", "runs"),
    [
        ({"image": "mine"}, False),
        ({"image": "mine", "command": ["/server"]}, False),
        ({"image": "mine", "command": ["cat", "/etc/hosts"]}, True),
        ({"image": "mine", "command": ["sleep", "5"]}, False),
        ({"image": "mine", "command": ["tail", "-f", "/dev/null"]}, False),
        ({"image": "busybox"}, False),  # a shell without input
        (sh("sleep 5; exit 1"), False),
        (sh("sleep 5; echo x"), True),
        (sh("true > /tmp/x"), True),
        (sh("while true; do echo x; sleep 1; done"), True),
        (sh("cat x; exec /server"), False),  # the image has what its author's script names
        (sh("cat x; exec /server", "busybox"), True),
        (sh("while wget -q http://db; do sleep 1; done"), False),
    ],
)
def test_containers_with_known_programs_that_do_something_are_run(
    container: dict[str, Any], runs: bool
) -> None:
    assert KNOWN.runs(container) is runs


@pytest.mark.parametrize("image", ["nginx:1.23", "httpd"])
def test_a_web_server_of_an_image_sleeps_until_it_is_needed(image: str) -> None:
    known = interpreter()
    assert known is not None
    assert not known.runs({"image": image})
    assert known.runs({"image": "registry.example/e2e-test-images/agnhost:2.40", "args": ["netexec"]})
