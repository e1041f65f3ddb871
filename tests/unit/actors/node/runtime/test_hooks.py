"""The duration and the exit code of hooks."""

import pytest

from actors.node.runtime.hooks import hook_end
from sim.units import SECOND


@pytest.mark.parametrize(
    ("command", "seconds", "code"),
    [
        (["sleep", "5"], 5, 0),
        (["/bin/sh", "-c", "sleep 5"], 5, 0),
        (["sleep", "1m"], 60, 0),
        (["true"], 0, 0),
        (["/bin/false"], 0, 1),
        (["sh", "-c", "exit 7"], 0, 7),
        (["nginx", "-s", "quit"], 0, 0),
        (["sh", "-c", "sleep 15 && nginx -s quit"], 15, 0),
        (["sh", "-c", "nginx -s quit; while killall -0 nginx; do sleep 1; done"], 0, 0),
        (["sh", "-c", "nginx -s quit; sleep 3; false"], 3, 1),
    ],
)
def test_hook_ends_as_its_command_does(command: list[str], seconds: int, code: int) -> None:
    container = {"lifecycle": {"preStop": {"exec": {"command": command}}}}
    assert hook_end(container, "preStop") == (seconds * SECOND, code)
    assert hook_end(container, "postStart") == (0, 0)
