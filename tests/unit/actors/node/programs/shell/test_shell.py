"""What no recording shows: time, signals to process 1, messages of busybox, what is not understood."""

from __future__ import annotations

from actors.node.programs.ends import Output, pipe
from actors.node.programs.process import Identity
from actors.node.programs.shell import run
from actors.node.programs.shell.life import START_US
from actors.node.programs.table import Table
from tests.unit.actors.node.programs.shell.container import shell


def test_ash_words_its_errors_as_busybox() -> None:
    assert shell("sh", "-c", "x").err == "sh: x: not found\n"
    assert shell("sh", "-c", "echo > /nope/x").err == "sh: can't create /nope/x: nonexistent directory\n"
    assert shell("sh", "-c", "cat < nope").err == "sh: can't open nope: no such file\n"
    assert (
        shell("sh", "-c", "cd /nope").err == "sh: cd: line 1: can't cd to /nope: No such file or directory\n"
    )
    assert shell("sh", "-c", "fi").err == 'sh: syntax error: unexpected "fi"\n'
    assert (
        shell("sh", "-c", "if :; then :").err == 'sh: syntax error: unexpected end of file (expecting "fi")\n'
    )
    assert shell("sh", "-c", "echo 'a").err == "sh: syntax error: unterminated quoted string\n"
    assert shell("sh", "-c", ": ${u:?must be set}").err == "sh: u: must be set\n"
    assert shell("sh", "-c", "set -u; : $u").err == "sh: u: parameter not set\n"
    assert shell("sh", "-c", "kill 99").err == "sh: can't kill pid 99: No such process\n"


def test_a_script_file_names_itself_and_its_line_in_errors() -> None:
    files = {"/tmp/x.sh": b"#!/bin/sh\necho $0 $1\n\nnope\n", "/tmp/y": b"nope\n"}
    assert shell("sh", "-c", "/tmp/x.sh a; echo $?", files=files)[:2] == (
        "/tmp/x.sh a\n127\n",
        "/tmp/x.sh: line 4: nope: not found\n",
    )
    assert shell("bash", "/tmp/y", files=files).err == "/tmp/y: line 1: nope: command not found\n"
    missing = shell("sh", "/tmp/none")
    assert (missing.code, missing.err) == (2, "sh: can't open '/tmp/none': No such file or directory\n")


def test_each_external_command_takes_a_millisecond() -> None:
    assert shell("sh", "-c", "echo a; cat; cat; cat; :").end_us == 3 * START_US
    assert shell("sh", "-c", "echo a; echo b").end_us == 0


def test_a_single_command_replaces_the_shell() -> None:
    alone = shell("sh", "-c", "echo $$; sleep 5", until_us=1)
    assert [process.words for process in alone.table.processes] == [("pause",), ("sleep", "5")]
    held = shell("sh", "-c", "trap 'echo t' EXIT; sleep 5", until_us=START_US + 1)
    assert len(held.table.processes) == 3


def test_a_trap_runs_after_the_command_in_the_foreground() -> None:
    result = shell("sh", "-c", "trap 'echo trap' TERM; (sleep 1; kill $$) & sleep 3; echo after")
    assert result.out == "trap\nafter\n"
    assert result.end_us >= 3_000_000


def test_wait_is_interrupted_by_a_trapped_signal() -> None:
    result = shell(
        "sh", "-c", "trap 'echo trap; exit 7' TERM; (sleep 1; kill $$) & sleep 100 & wait; echo never"
    )
    assert (result.out, result.code) == ("trap\n", 7)
    assert result.end_us < 2_000_000


def test_process_1_without_a_trap_ignores_a_signal() -> None:
    out = bytearray()
    table = Table(lambda: None)
    words = ("sh", "-c", "kill -TERM $$; echo $$ alive")
    process = table.spawn(run, _around(), words, {}, "/", Identity(), ends={1: Output(out.extend)})
    table.run(0)
    assert process.ended.code == 0
    assert out == b"1 alive\n"


def _around() -> object:
    return shell("sh", "-c", ":").table.processes[0].container


def test_what_is_not_understood_ends_with_127_and_a_note() -> None:
    result = shell("bash", "-c", "select x in a; do :; done")
    assert result.code == 127
    assert result.err == "bash: line 1: select is not understood\n"
    assert result.notes == ["the shell: select is not understood"]
    assert shell("bash", "-c", "coproc cat").code == 127


def test_a_bash_script_knows_its_path_and_what_it_was_sourced_from() -> None:
    files = {
        "/tmp/x": b"f() { [ ${#FUNCNAME[@]} -ge 2 ] && echo ${FUNCNAME[1]}; }; f; echo $BASH_SOURCE; . /tmp/y\n",
        "/tmp/y": b'f; echo "${BASH_SOURCE[0]}" ${#BASH_SOURCE[@]} $0\n',
    }
    assert shell("bash", "/tmp/x", files=files).out == "main\n/tmp/x\nsource\n/tmp/y 2 /tmp/x\n"


def test_input_is_a_script() -> None:
    result = shell("sh", "-s", "a", stdin=b"echo $1\nexit 3\n")
    assert (result.out, result.code) == ("a\n", 3)


def typed(*lines: bytes, terminal: bool = False) -> list[str]:
    """What a shell has printed after each of the pieces of input that come one after the other."""
    reading, writing = pipe()
    reading.terminal = terminal
    out, seen = bytearray(), []
    table = Table(lambda: None)
    ends = {0: reading, 1: Output(out.extend), 2: Output(out.extend)}
    process = table.spawn(run, _around(), ("sh",), {"PATH": "/bin"}, "/tmp", Identity(), ends=ends)
    for now_us, line in enumerate((b"", *lines)):
        writing.write(line)
        table.run(now_us * 100_000)
        while table.next_us is not None and table.next_us < (now_us + 1) * 100_000:
            table.run(table.next_us)
        seen.append(out.decode())
        out.clear()
    writing.close()
    table.run(10_000_000)
    assert process.ended.ready
    return [*seen, out.decode()]


def test_commands_of_the_input_run_when_they_are_complete() -> None:
    lines = (
        b"echo a\n",
        b"echo",
        b" b\n",
        b"for i in 1 2\n",
        b"do echo $i\n",
        b"done\n",
        b"read x\n",
        b"typed\n",
        b"echo $x\n",
    )
    assert typed(*lines) == ["", "a\n", "", "b\n", "", "", "1\n2\n", "", "", "typed\n", ""]
    assert typed(b"cat <<E\n", b"doc\n", b"E\n", b"true &&\n", b"echo c\\\n", b"d\n") == [
        "",
        "",
        "",
        "doc\n",
        "",
        "",
        "cd\n",
        "",
    ]


def test_a_terminal_gets_prompts_and_outlives_errors() -> None:
    assert typed(b"echo a\n", b"fi\n", b"'b\n", b"'\n", b"exit\n", terminal=True) == [
        "/tmp # ",
        "a\n/tmp # ",
        'sh: syntax error: unexpected "fi"\n/tmp # ',
        "> ",
        "sh: b\n: not found\n/tmp # ",
        "",
        "",
    ]


def test_options_of_the_command_line_are_set() -> None:
    assert shell("sh", "-ec", "false; echo never").code == 1
    assert shell("bash", "-euo", "pipefail", "-c", "false | true; echo never").code == 1
    assert shell("sh", "-xc", "echo a").err == "+ echo a\n"
    assert shell("sh", "-nc", "echo a").out == ""
    assert shell("sh", "-c").code == 2


def test_a_child_inherits_the_umask_and_what_is_exported() -> None:
    result = shell("sh", "-c", "umask 077; a=1; export b=2; sh -c 'umask; echo [$a] $b'")
    assert result.out == "0077\n[] 2\n"


def test_a_broken_pipe_ends_a_writer() -> None:
    result = shell("sh", "-c", "(while :; do echo y; done; echo never >&2) | { read x; echo $x; }")
    assert (result.out, result.err, result.code) == ("y\n", "", 0)


def test_a_script_of_an_image_runs() -> None:
    script = b"""#!/bin/sh
set -e
# first arg is `-f` or `--some-option`, or ends with `.conf`
if [ "${1#-}" != "$1" ] || [ "${1%.conf}" != "$1" ]; then
    set -- redis-server "$@"
fi
um="$(umask)"
if [ "$um" = '0022' ]; then
    umask 0077
fi
for f in /docker-entrypoint.d/*; do
    case "$f" in
        *.sh) . "$f" ;;
        *) echo "ignoring $f" ;;
    esac
done
exec echo "$@"
"""
    result = shell("sh", "/tmp/entry", "--port", "1", files={"/tmp/entry": script})
    assert result.out == "ignoring /docker-entrypoint.d/*\nredis-server --port 1\n"
