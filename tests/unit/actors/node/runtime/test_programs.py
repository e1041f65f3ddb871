"""What SIGTERM does to well-known programs, and what well-known images run."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.runtime.commands import commanded
from actors.node.runtime.profile import FOREVER, ContainerBehaviour, RuntimeProfile
from actors.node.runtime.programs import DIES, HANDLES, IGNORES, image_entry, on_term, table, words_of
from sim.units import SECOND


def behaviour(container: dict[str, Any], init: bool = False, **spec: Any) -> ContainerBehaviour:
    kind = "initContainers" if init else "containers"
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [], kind: [{"name": "c", **container}], **spec}}
    return RuntimeProfile().behaviour(pod, "c", init)


@pytest.mark.parametrize(
    "words",
    [
        ["sleep", "600"],
        ["/usr/bin/tail", "-f", "/dev/null"],
        ["sh", "-c", "sleep 60; exit 42"],
        ["bash", "-c", "while true; do date; sleep 1; done"],
        ["/bin/sh", "-c", "sleep 600"],
        ["sh", "-c", "exec sleep 600"],
        ["sh"],
    ],
)
def test_first_process_without_handler_ignores_sigterm(words: list[str]) -> None:
    assert on_term(words, is_first=True) == IGNORES
    assert on_term(words, is_first=False) == DIES


@pytest.mark.parametrize(
    "words",
    [
        ["nginx", "-g", "daemon off;"],
        ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"],
        ["sh", "-c", "mkdir /run/a; exec nginx"],
        ["sh", "-c", "nginx"],
        ["sh", "entrypoint.sh"],
        ["tini", "--", "nginx"],
        ["tini"],
        [],
    ],
)
def test_program_that_may_have_a_handler_counts_as_server(words: list[str]) -> None:
    assert on_term(words, is_first=True) == HANDLES


def test_program_below_an_init_process_dies_of_sigterm() -> None:
    assert on_term(["/sbin/tini", "-g", "--", "sleep", "9"], is_first=True) == DIES
    assert on_term(["dumb-init", "-v", "sleep", "9"], is_first=True) == DIES


def test_java_handles_sigterm_and_ends_with_143() -> None:
    assert on_term(["java", "-jar", "a.jar"], is_first=True) == {"stop_exit_code": 143}


def test_behaviour_of_sleep_waits_for_sigkill_unless_processes_are_shared() -> None:
    alone = behaviour({"command": ["sleep", "600"]})
    assert (alone.exit_after_us, alone.stop_us) == (600 * SECOND, None)
    for shared in ("shareProcessNamespace", "hostPID"):
        found = behaviour({"command": ["sleep", "600"]}, **{shared: True})
        assert (found.stop_us, found.stop_exit_code) == (FOREVER.stop_us, 143)


def test_unknown_image_and_unknown_command_behave_as_server() -> None:
    assert behaviour({"image": "r/web:1"}) is FOREVER
    assert behaviour({"image": "r/web:1", "args": ["--port", "80"]}) is FOREVER
    assert behaviour({"image": "r/web:1", "command": ["serve"]}) is FOREVER


def test_unknown_init_container_still_ends() -> None:
    found = behaviour({"image": "r/i", "command": ["sh", "-c", "migrate | tee log"]}, init=True)
    assert found.exit_after_us is not None and found.stop_us is None


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"image": "busybox", "args": ["sleep", "5"]}, ["sleep", "5"]),
        ({"image": "docker.io/library/busybox:1.36@sha256:" + 64 * "a"}, ["sh"]),
        ({"image": "registry.example:5000/alpine:3"}, ["/bin/sh"]),
        ({"image": "nginx", "args": ["sleep", "5"]}, ["sleep", "5"]),
        ({"image": "registry.k8s.io/pause:3.8"}, ["/pause"]),
        ({"image": "busybox", "command": ["a"], "args": ["b"]}, ["a", "b"]),
        ({"image": "team/busybox"}, []),
        ({"image": "r/job", "args": ["/bin/sh", "-c", "exit 1"]}, ["/bin/sh", "-c", "exit 1"]),
        ({"image": "r/job", "args": ["--workers", "3"]}, []),
    ],
)
def test_arguments_go_to_known_entry_point(container: dict[str, Any], words: list[str]) -> None:
    assert words_of(container) == words


def test_arguments_of_image_without_entry_point_are_its_command() -> None:
    assert commanded({"image": "busybox", "args": ["/bin/sh", "-c", "exit 1"]}) == {
        "exit_after_us": 100_000,
        "exit_code": 1,
    }


def test_shell_without_input_ends_at_once() -> None:
    assert commanded({"image": "busybox"}) == {"exit_after_us": 100_000}
    assert commanded({"image": "busybox", "stdin": True}) == {}


def test_output_to_a_file_is_not_logged() -> None:
    found = commanded({"command": ["sh", "-c", "echo a > /run/f; echo b; exec sleep 5; exit 3"]})
    assert found == {"exit_after_us": 5 * SECOND, "log": "b"}


def test_every_image_of_the_table_has_a_command_line() -> None:
    allowed = {"entrypoint", "command", "runs_arguments", "ports", "busybox", "folders", "library", "log"}
    for image, entry in table()["images"].items():
        assert words_of({"image": image}) and set(entry) <= allowed
        assert image_entry(f"registry.example/{image}:9") == entry
