"""awk: programs with the outputs of mawk 1.3.4, recorded beforehand, and limits of hostile ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.node.programs.commands import COMMANDS
from actors.node.programs.files.inodes import OUTSIDE, Directory, Program
from actors.node.programs.process import Signal
from actors.node.programs.shell import run as shell
from sim.units import MS
from tests.unit.actors.node.programs.commands.laboratory import Laboratory

RECORDED = json.loads((Path(__file__).parents[5] / "data" / "commands" / "awk" / "mawk.json").read_text())


def laboratory() -> Laboratory:
    """A container with a shell."""
    made = Laboratory()
    made.files.programs = {**COMMANDS, "sh": shell}
    folder = made.files.lookup("/bin", OUTSIDE)
    assert isinstance(folder, Directory)
    folder.add("sh", Program(made.files.root.inode.filesystem, "sh"), 0)
    return made


@pytest.mark.parametrize("case", RECORDED, ids=[case["program"] for case in RECORDED])
def test_awk_prints_what_mawk_prints(case: dict[str, Any]) -> None:
    data, _, code = laboratory().run(["awk", case["program"], "/w/a.txt"])
    assert (data.decode("latin-1"), code) == (case["stdout"], case["code"])


@pytest.mark.parametrize(("words", "printed"), [
    (["-F:", "{ print $2 }", "t.tsv"], "2\n10\n1\n3\n"),
    (["-F", "[:]", "-v", "OFS=-", "{ $1 = $1; print }", "t.tsv"], "b-2-x\na-10-y\nc-1-z\na-3-w\n"),
    (["-v", "x=a\\tb", "BEGIN { print x, length(x) }"], "a\tb 3\n"),
    (["{ print FILENAME, FNR, NR, v }", "v=1", "n.txt", "v=2", "a.txt"], None),
    (["-f", "/tmp/prog", "a.txt"], "one\nthree\n\nfour\n"),
    (["BEGIN { print substr(\"hello\", -1, 3), 1 / 4, 2 ** 3, gensub(/(l+)o/, \"<\\\\1>\", \"g\", \"hello\") }"],
     "h 0.25 8 he<ll>\n"),
    (["BEGIN { printf \"%s|%s|\\n\", \"only\"; print systime(), strftime(\"%F\", 86400) }"],
     "only||\n1795824000 1970-01-02\n"),
])  # fmt: skip
def test_awk_takes_options_operands_and_further_functions(words: list[str], printed: str | None) -> None:
    made = laboratory()
    made.files.write("/tmp/prog", b"# first fields\n{ print $1 }\n")
    data, errors, code = made.run(["awk", *words])
    assert (errors, code) == (b"", 0)
    rows = data.decode().splitlines()
    assert data.decode() == printed if printed is not None else rows[5:7] == ["a.txt 1 6 2", "a.txt 2 7 2"]


@pytest.mark.parametrize(("program", "error"), [
    ("BEGIN { s = \"x\"; while (1) s = s s }", "string too long"),
    pytest.param("BEGIN { while (1) a[i++] = i }", "out of memory", marks=pytest.mark.slow),
    ("BEGIN { s = sprintf(\"%100000s\", \"\"); while (1) a[i++] = s }", "out of memory"),
    ("function f(n) { return f(n + 1) } BEGIN { f(0) }", "nested too deep"),
    ("BEGIN { while (1) print \"x\" > (\"/tmp/f\" i++) }", "too many open files"),
    ("BEGIN { while (1) (\"echo \" i++) | getline }", "too many open files"),
    ("BEGIN { $100000000 = 1 }", "bad field index"), ("BEGIN { NF = 1e9 }", "bad number of fields"),
    ("BEGIN { printf \"%999999999s\", 1 }", "string too long"), ("BEGIN { print 1 / 0 }", "division by zero"),
    ("BEGIN { x = " + "(" * 5000 + "1" + ")" * 5000 + " }", "nested too deep"), ("BEGIN { print " + "- " * 5000 + "1 }", "nested"),
    ("BEGIN { if (" + "{" * 3000, "line 1"), ("BEGIN { \"", "runaway string"), ("/x", "without its end"), ("{ f(1) }", "never"),
    ("BEGIN { next }", "wrong place"), ("BEGIN { a[1]; print a }", "as scalar"), ("BEGIN { substr() }", "arguments"),
    ("BEGIN { gsub(/(/, \"\") }", "Unmatched"), ("@", "unexpected character"), ("BEGIN { x = (1, 2) }", "syntax error"),
])  # fmt: skip
def test_awk_program_beyond_a_limit_ends_with_an_error(program: str, error: str) -> None:
    _, errors, code = laboratory().run(["awk", program, "/w/a.txt"])
    assert error in errors.decode()
    assert code == 2


@pytest.mark.slow
def test_endless_awk_loop_rests_and_can_be_killed() -> None:
    for program in ("BEGIN { for (;;) n++ }", "BEGIN { while (1); }", "BEGIN { do {} while (1) }"):
        made = laboratory()
        process = made.start(["awk", program])
        made.advance(20 * MS)
        assert not process.ended.ready and made.table.next_us is not None
        made.table.signal(process, Signal.TERM)
        assert process.ended.code == 143
