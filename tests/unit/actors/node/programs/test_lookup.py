"""From the first word of a command to what runs."""

from __future__ import annotations

import pytest

from actors.node.programs.files.inodes import OUTSIDE
from actors.node.programs.lookup import NotRunnable, find, program
from actors.node.programs.process import Identity
from tests.unit.actors.node.programs.commands.laboratory import Laboratory


def outcome(laboratory: Laboratory, *words: str) -> tuple[bytes, int]:
    """What a command prints and its code; the reason if it cannot be started."""
    printed, errors, code = laboratory.run(words)
    return printed or errors, code


def test_a_name_is_searched_in_path_and_a_path_is_taken() -> None:
    laboratory = Laboratory()
    process = laboratory.start(["sleep", "9"])
    assert find(process, "ls") == "/bin/ls"
    assert find(process, "/bin/cat") == "/bin/cat"
    process.env["PATH"] = "/nowhere:/bin"
    assert find(process, "cat") == "/bin/cat"
    process.env["PATH"] = ""
    with pytest.raises(NotRunnable):
        find(process, "cat")
    process.cwd = "/bin"
    assert find(process, "cat") == "./cat"


@pytest.mark.parametrize(("word", "expected"), [
    ("nothing", (b"not found", 127)), ("/w/nothing", (b"not found", 127)), ("/w/a.txt", (b"Permission denied", 126)),
    ("/w/d", (b"Permission denied", 126)), ("/w/a.txt/x", (b"Not a directory", 126)), ("", (b"not found", 127)),
])  # fmt: skip
def test_what_cannot_run_has_a_code_and_a_reason(word: str, expected: tuple[bytes, int]) -> None:
    assert outcome(Laboratory(), word) == expected


def test_a_script_runs_its_interpreter_with_its_path() -> None:
    laboratory = Laboratory()
    laboratory.files.write("/w/run", b"#!/bin/echo  one two \nrest\n", mode=0o777)
    assert outcome(laboratory, "/w/run", "x") == (b"one two /w/run x\n", 0)
    laboratory.files.write("/w/outer", b"#!/w/run\n", mode=0o777)
    assert outcome(laboratory, "/w/outer") == (b"one two /w/run /w/outer\n", 0)


def test_scripts_that_interpret_each_other_end() -> None:
    laboratory = Laboratory()
    laboratory.files.write("/w/loop", b"#!/w/loop\n", mode=0o777)
    assert outcome(laboratory, "/w/loop") == (b"Too many levels of symbolic links", 126)


def test_a_copy_of_a_program_is_the_program() -> None:
    laboratory = Laboratory()
    assert outcome(laboratory, "cp", "/bin/echo", "/w/say") == (b"", 0)
    assert outcome(laboratory, "/w/say", "hi") == (b"hi\n", 0)


def test_an_unknown_binary_is_noted() -> None:
    laboratory, notes = Laboratory(), list[str]()
    laboratory.surroundings.unknown = notes.append
    laboratory.files.write("/w/x", b"\x7fELF\0\0", mode=0o777)
    assert outcome(laboratory, "/w/x") == (b"Exec format error", 126)
    assert notes == ["the file /w/x is no program that is known"]


def test_a_user_cannot_run_what_only_root_may() -> None:
    laboratory = Laboratory()
    laboratory.files.chmod("/bin/ls", OUTSIDE, 0o700)
    laboratory.identity = Identity(7, 7)
    assert outcome(laboratory, "ls") == (b"Permission denied", 126)


def test_busybox_runs_its_tools() -> None:
    laboratory = Laboratory(busybox=True)
    assert outcome(laboratory, "busybox", "echo", "a") == (b"a\n", 0)
    assert outcome(laboratory, "busybox", "nothing") == (b"nothing: applet not found\n", 127)


def test_a_program_is_found_by_the_words_of_a_command() -> None:
    laboratory = Laboratory()
    process = laboratory.start(["sleep", "9"])
    assert program(process, ("echo", "a")) is laboratory.files.programs["echo"]
