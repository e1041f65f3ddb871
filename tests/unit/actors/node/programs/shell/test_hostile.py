"""Hostile scripts are bounded: in processes, in depth, in size, in steps per instant."""

from __future__ import annotations

import pytest

from actors.node.programs.shell.state import VALUE_MAX
from actors.node.programs.table import PROCESSES_MAX
from sim.units import SECOND
from tests.unit.actors.node.programs.shell.container import shell


@pytest.mark.slow
def test_a_fork_bomb_is_bounded_and_others_go_on() -> None:
    result = shell("bash", "-c", ":() { :|:& }; :; sleep 30; echo on", until_us=60 * SECOND)
    assert result.code == 0
    assert result.out == "on\n"
    assert len(result.table.processes) <= PROCESSES_MAX
    assert "fork: Resource temporarily unavailable" in result.err


def test_a_shell_that_cannot_fork_says_so_and_ends() -> None:
    result = shell("sh", "-c", "while :; do sleep 3000 & done")
    assert result.code == 2
    assert result.err == "sh: can't fork: Resource temporarily unavailable\n"


@pytest.mark.slow
@pytest.mark.parametrize("script", ["while :; do :; done", "for ((;;)); do x=$((x+1)); done"])
def test_an_endless_loop_rests(script: str) -> None:
    result = shell("bash", "-c", script, until_us=10 * SECOND)
    assert result.code == -1
    assert result.end_us > SECOND


@pytest.mark.parametrize(
    "script",
    [
        "f() { f; }; f",
        "f() { if :; then { (:); f; }; fi; }; f",
        'x=\'eval "$x"\'; eval "$x"',
        "trap 'kill -USR1 $$' USR1; kill -USR1 $$",
        ". ./again",
    ],
)
def test_recursion_ends_with_an_error(script: str) -> None:
    result = shell("sh", "-c", script, files={"/tmp/work/again": b". ./again\n"})
    assert result.code == 2
    assert "maximum function nesting level exceeded" in result.err


def test_recursion_by_substitution_ends() -> None:
    result = shell("sh", "-c", "f() { echo $(f); }; f")
    assert "exceeded" in result.err
    assert result.out == "\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done",
        'x=aaaaaaaaaaaaaaaa; while :; do x="$x$x"; done',
        'set -- aaaaaaaaaaaaaaaa; while :; do set -- "$@" "$@"; done',
        "x=$(while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done)",
    ],
)
def test_growing_values_end_with_an_error(script: str) -> None:
    result = shell("sh", "-c", script)
    assert result.code in (2, 126)
    assert result.err.count("\n") == 1


def test_a_growing_replacement_ends_with_an_error() -> None:
    result = shell("bash", "-c", "x=aaaaaaaaaaaaaaaa; while :; do x=${x//a/aa}; done")
    assert (result.code, result.err) == (1, "bash: line 1: word too long\n")


def test_an_array_cannot_grow_for_ever() -> None:
    element = "x" * 1000
    result = shell("bash", "-c", f"i=0; while :; do a[i++]={element}; done")
    assert (result.code, result.err) == (1, "bash: line 1: out of memory\n")


@pytest.mark.slow
def test_functions_cannot_be_defined_for_ever() -> None:
    script = 'i=0; while :; do i=$((i+1)); eval "f$i() { :; }"; done'
    result = shell("sh", "-c", script)
    assert result.code == 2
    assert result.err.endswith(": too many functions\n")


@pytest.mark.slow
def test_a_here_document_of_100_megabytes_is_refused() -> None:
    result = shell("sh", "-c", "cat <<E\n" + "x" * 100_000_000 + "\nE\n")
    assert (result.code, result.err) == (2, "sh: syntax error: script too long\n")


def test_a_here_document_may_be_as_large_as_a_pipe_is_not() -> None:
    result = shell("sh", "-c", "cat <<E\n" + "x" * 500_000 + "\nE\n")
    assert (result.code, len(result.out)) == (0, 500_001)


DEEP = 5_000


@pytest.mark.parametrize(
    "script",
    [
        "(" * DEEP,
        "( " * DEEP + "a" + " )" * DEEP,
        "echo " + "$(" * DEEP + ")" * DEEP,
        'echo "' + '$("' * DEEP,
        "echo " + "${x:-" * DEEP + "}" * DEEP,
        "if " * DEEP,
        "{ " * DEEP,
        "case a in a) " * DEEP,
        "while :; do " * DEEP,
        "f() " * DEEP + "{ :; }",
        "echo {1..100}{1..100}{1..100}",
        "echo {1..999999999}",
        "echo " + "{a,b}" * 40,
    ],
)
def test_deep_syntax_is_a_syntax_error(script: str) -> None:
    assert shell("bash", "-c", script).code == 2


@pytest.mark.parametrize(
    "expression",
    [
        "(" * DEEP + "1" + ")" * DEEP,
        "a=" * DEEP + "1",
        "1?" * DEEP + "1" + ":0" * DEEP,
        "x",
    ],
)
def test_deep_arithmetic_ends_with_an_error(expression: str) -> None:
    result = shell("bash", "-c", f"x=x; echo $(({expression})); echo never")
    assert result.code == 1
    assert result.out == ""


@pytest.mark.slow
def test_long_arithmetic_and_lists_are_no_depth() -> None:
    script = (
        "echo $((1"
        + "+1" * 5000
        + ")) $(("
        + "-" * 5000
        + "1))"
        + " && true" * 5000
        + "; "
        + "! " * 4000
        + "true; echo $?"
    )
    assert shell("bash", "-c", script).out == "5001 1\n0\n"


@pytest.mark.parametrize("words", ["! " * DEEP + "a", r"\( " * DEEP + "a"])
def test_deep_tests_end_with_an_error(words: str) -> None:
    assert shell("sh", "-c", f"[ {words} ]").code == 2
    assert shell("bash", "-c", f"[[ {words.replace(chr(92), '')} ]]").code == 2


def test_a_pattern_with_many_stars_takes_no_time() -> None:
    result = shell("sh", "-c", f"case {'a' * 20_000} in {'*a' * 50}b) echo no;; *) echo done;; esac")
    assert result.out == "done\n"


def test_wide_formats_are_refused() -> None:
    result = shell("sh", "-c", "printf %999999999d 1; printf %.999999999f 1; printf '%*d' 99999999 1")
    assert len(result.out) < 10
    assert result.code == 1


def test_descriptors_are_bounded() -> None:
    result = shell("sh", "-c", "exec 5000>&1; echo never")
    assert (result.code, result.out) == (1, "")


def test_numbers_out_of_range_are_refused() -> None:
    result = shell("sh", "-c", "exit 99999999999999999999999999")
    assert (result.code, result.err) == (2, "sh: exit: Illegal number: 99999999999999999999999999\n")


def test_bytes_that_are_no_text_pass_through() -> None:
    result = shell("sh", stdin=b'x=$(cat <<E\n\xff\xfe\nE\n); echo "$x"; [ "$x" = "$x" ] && echo ${#x}')
    assert result.out == "��\n2\n"


def test_a_script_that_replaces_itself_for_ever_does_not_nest() -> None:
    result = shell("sh", "-c", 'exec sh -c "$0" "$0"', 'exec sh -c "$0" "$0"', until_us=SECOND)
    assert (result.code, result.err) == (-1, "")
    assert len(result.table.processes) == 2


def test_values_of_the_largest_size_are_taken() -> None:
    script = f"printf -v x %{VALUE_MAX}d 1; echo ${{#x}}"
    assert shell("bash", "-c", script).out == f"{VALUE_MAX}\n"
