"""Commands wait in virtual time, and hostile ones stay within their limits."""

from __future__ import annotations

import pytest

from actors.node.programs.commands.archives import Member, header
from actors.node.programs.commands.tool import LINE_MAX
from actors.node.programs.ends import BrokenPipe, pipe
from actors.node.programs.files.inodes import HELD_MAX, OUTSIDE, Directory
from actors.node.programs.files.special import system_mounts
from actors.node.programs.files.tree import Tree, Volume
from actors.node.programs.process import Identity, Signal
from sim.units import MS, SECOND
from tests.unit.actors.node.programs.commands.laboratory import MADE_US, Laboratory


def with_devices(laboratory: Laboratory) -> Laboratory:
    """The same container with /dev and /proc."""
    files = laboratory.files
    root = Volume(files.root.inode.filesystem, root=files.root.inode)
    laboratory.surroundings.files = Tree(
        root, system_mounts("c", MADE_US), files.wall_us, busybox=files.busybox, programs=files.programs
    )
    return laboratory


@pytest.mark.parametrize(("words", "took_us"), [
    (["sleep", "1.5"], 1_500 * MS), (["sleep", "2m"], 120 * SECOND), (["sleep", "1", "0.25s"], 1_250 * MS),
    (["timeout", "3", "sleep", "9"], 3 * SECOND), (["timeout", "9", "sleep", "3"], 3 * SECOND),
])  # fmt: skip
def test_waiting_takes_virtual_time(words: list[str], took_us: int) -> None:
    laboratory = Laboratory()
    laboratory.run(words)
    assert laboratory.table.now_us == took_us


def test_sleep_infinity_never_ends_and_has_no_timer() -> None:
    laboratory = Laboratory()
    process = laboratory.start(["sleep", "infinity"])
    laboratory.advance(10**15)
    assert not process.ended.ready
    assert laboratory.table.next_us is None


def test_tail_follows_what_is_appended_without_a_timer() -> None:
    laboratory = Laboratory()
    laboratory.start(["tail", "-n", "1", "-f", "/w/a.txt"])
    laboratory.advance(SECOND)
    assert bytes(laboratory.printed) == b"four five six\n"
    assert laboratory.table.next_us is None
    printed = laboratory.printed
    end = laboratory.files.open("/w/a.txt", OUTSIDE, 2 | 4)  # type: ignore[arg-type]
    end.write(b"more\n")
    laboratory.advance(2 * SECOND)
    assert bytes(printed) == b"four five six\nmore\n"


def test_tail_by_name_follows_a_file_that_replaces_another() -> None:
    laboratory = Laboratory()
    laboratory.start(["tail", "-F", "/w/log"])
    laboratory.advance(SECOND)
    printed = laboratory.printed
    laboratory.files.write("/w/log", b"one\n")
    laboratory.advance(3 * SECOND)
    laboratory.files.rename("/w/log", "/w/log.1", OUTSIDE)
    laboratory.files.write("/w/log", b"two\n")
    laboratory.advance(6 * SECOND)
    assert bytes(printed) == b"one\ntwo\n"


def test_the_clock_of_date_is_the_nodes() -> None:
    laboratory = Laboratory()
    laboratory.run(["sleep", "61"])
    assert laboratory.run(["date", "+%FT%T"])[0] == b"2026-11-28T00:01:01\n"


@pytest.mark.slow
def test_endless_output_rests_and_can_be_killed() -> None:
    laboratory = Laboratory()
    process = laboratory.start(["yes"])
    laboratory.advance(20 * MS)
    size = len(laboratory.printed)
    assert 0 < size < 256 << 20
    laboratory.table.signal(process, Signal.KILL, outside=True)
    assert process.ended.code == 137


def test_endless_output_fills_a_file_up_to_the_limit_and_then_fails() -> None:
    laboratory = Laboratory(bytes_max=1 << 20)
    assert laboratory.run(["tee", "/w/out"], b"x" * (1 << 20))[1:] == (
        b"tee: /w/out: No space left on device\n",
        1,
    )
    assert laboratory.files.lookup("/w/out", OUTSIDE).size < HELD_MAX


def test_a_line_without_an_end_is_cut_into_pieces() -> None:
    laboratory = with_devices(Laboratory())
    printed, _, code = laboratory.run(["head", "-n", "2", "/dev/zero"])
    assert (len(printed), code) == (2 * LINE_MAX, 0)


def test_a_write_to_a_full_device_fails() -> None:
    laboratory = with_devices(Laboratory())
    assert laboratory.run(["cp", "/w/a.txt", "/dev/full"])[1:] == (
        b"cp: error writing '/dev/full': No space left on device\n", 1,
    )  # fmt: skip


@pytest.mark.slow
def test_deep_directories_and_loops_of_links_end() -> None:
    laboratory = Laboratory()
    folder = laboratory.files.lookup("/w/d", OUTSIDE)
    for _ in range(600):
        assert isinstance(folder, Directory)
        below = Directory(folder.filesystem, 0o755, 0)
        folder.add("deep", below, 0)
        folder = below
    laboratory.files.symlink("loop", "/w/loop", OUTSIDE)
    for words in (
        ["find", "/w"],
        ["find", "-L", "/w"],
        ["ls", "-R", "/w"],
        ["du", "/w"],
        ["cp", "-r", "/w/d", "/w/e"],
    ):
        _, _, code = laboratory.run(words)
        assert code >= 0, words
    assert laboratory.run(["cat", "/w/loop"])[1] == b"cat: /w/loop: Too many levels of symbolic links\n"


def test_a_user_gets_what_permissions_say() -> None:
    laboratory = Laboratory()
    laboratory.identity = Identity(1000, 1000)
    assert laboratory.run(["cat", "/w/n.txt"])[1:] == (b"cat: /w/n.txt: Permission denied\n", 1)
    assert laboratory.run(["touch", "/w/x"])[1:] == (b"touch: cannot touch '/w/x': Permission denied\n", 1)
    assert laboratory.run(["chown", "0", "/w/a.txt"])[1:] == (
        b"chown: changing ownership of '/w/a.txt': Operation not permitted\n", 1,
    )  # fmt: skip
    assert laboratory.run(["id"])[0] == b"uid=1000 gid=1000 groups=1000\n"


def test_kill_reaches_processes_of_the_container() -> None:
    laboratory = Laboratory()
    laboratory.start(["sleep", "9"])  # process 1 takes no signal without a handler
    sleeper = laboratory.start(["sleep", "9"])
    laboratory.table.run(0)
    assert laboratory.run(["kill", str(sleeper.pid)], until_us=0)[2] == 0
    assert sleeper.ended.code == 143


def test_patterns_that_blow_up_elsewhere_take_linear_time() -> None:
    laboratory = Laboratory()
    line = b"a" * 20_000 + b"\n"
    assert laboratory.run(["grep", "-E", "(a+)+b"], line)[2] == 1
    assert laboratory.run(["sed", "-E", "s/(a*)*c/x/"], line)[0] == line
    assert laboratory.run(["grep", r"\(a*\)*\1b"], line)[2] == 1


@pytest.mark.slow
def test_a_script_of_sed_that_loops_for_ever_ends() -> None:
    assert Laboratory().run(["sed", ":a;ba"], b"x\n")[1:] == (
        b"sed: the script takes too long for one line\n",
        1,
    )
    assert Laboratory().run(["sed", ":a;s/x/xx/g;ta"], b"x\n")[2] == 1


@pytest.mark.slow
def test_a_huge_copy_of_zeros_ends_at_the_size_of_the_volume() -> None:
    laboratory = with_devices(Laboratory(bytes_max=1 << 30))
    _, errors, code = laboratory.run(["dd", "if=/dev/zero", "of=/w/big", "bs=1M", "count=100000"])
    assert code == 1
    assert errors.startswith(b"dd: error writing '/w/big': No space left on device\n")
    size = laboratory.files.lookup("/w/big", OUTSIDE).size
    assert (1 << 30) - (1 << 20) < size < 1 << 30


def test_random_bytes_are_the_same_in_two_containers_of_one_name() -> None:
    words = ["dd", "if=/dev/urandom", "bs=8", "count=1", "status=none"]
    first, second = (with_devices(Laboratory()).run(words)[0] for _ in range(2))
    assert first == second
    assert len(first) == 8


def test_an_archive_cannot_write_outside_of_its_folder() -> None:
    laboratory = Laboratory()
    member = Member("../../etc/evil", "0", 0o644, 0, 0, 0, "", b"x")
    data = header(member) + b"x".ljust(512, b"\0") + bytes(1024)
    _, errors, code = laboratory.run(["tar", "xf", "-"], data)
    assert (errors.split(b"\n")[0], code) == (b"tar: ../../etc/evil: Member name contains '..'", 2)
    assert not laboratory.files.exists("/etc/evil", OUTSIDE)


def test_an_archive_keeps_long_names() -> None:
    laboratory = Laboratory()
    path = "/w/" + "/".join(["n" * 90] * 3)
    assert laboratory.run(["mkdir", "-p", path])[2] == 0
    laboratory.files.write(f"{path}/file", b"data")
    archive = laboratory.run(["tar", "cf", "-", "-C", "/w", "n" * 90])[0]
    laboratory.files.mkdir("/out", OUTSIDE)
    assert laboratory.run(["tar", "xf", "-", "-C", "/out"], archive)[2] == 0
    assert laboratory.files.read(f"/out{path[2:]}/file") == b"data"


@pytest.mark.parametrize(("words", "size"), [
    (["hexdump", "-n", "4", "/dev/urandom"], 0), (["od", "-An", "-N4", "-tu4", "/dev/urandom"], 12),
    (["xxd", "-l", "4", "-p", "/dev/urandom"], 9), (["sed", "2q", "/dev/zero"], 0), (["seq", "1e999999999"], 0),
])  # fmt: skip
def test_endless_input_ends_where_enough_was_read(words: list[str], size: int) -> None:
    printed, _, code = with_devices(Laboratory()).run(words, until_us=SECOND)
    assert code >= 0
    if size:
        assert len(printed) == size


def test_an_editor_in_a_pipe_prints_before_its_input_ends() -> None:
    laboratory = Laboratory()
    reader, writer = pipe()
    laboratory.start(["sed", "s/o/0/"])
    process = laboratory.table.processes[-1]
    process.replace(0, reader)
    writer.write(b"one\n")
    laboratory.advance(SECOND)
    assert bytes(laboratory.printed) == b"0ne\n"


def test_a_command_that_ends_at_a_write_closes_its_input() -> None:
    laboratory = Laboratory()
    reader, writer = pipe()
    out_reader, out_writer = pipe()
    process = laboratory.start(["cat"])
    process.replace(0, reader)
    process.replace(1, out_writer)
    out_reader.close()
    writer.write(b"x")
    laboratory.advance(SECOND)
    assert process.ended.code == 141
    with pytest.raises(BrokenPipe):
        writer.write(b"y")


@pytest.mark.parametrize("terminal", [True, False])
def test_commands_see_the_terminal_of_a_descriptor(terminal: bool) -> None:
    laboratory = Laboratory()
    started = laboratory.start(["tty"])
    started.ends[0].terminal = terminal
    laboratory.advance(SECOND)
    assert bytes(laboratory.printed) == (b"/dev/pts/0\n" if terminal else b"not a tty\n")
    started = laboratory.start(["test", "-t", "0"])
    started.ends[0].terminal = terminal
    laboratory.advance(2 * SECOND)
    assert started.ended.code == (0 if terminal else 1)


def test_printf_writes_the_bytes_that_numbers_name() -> None:
    assert Laboratory().run(["printf", r"\303\244\xff|%b", r"\0101"])[0] == b"\xc3\xa4\xff|A"


def test_tee_opens_a_bounded_number_of_files() -> None:
    laboratory = Laboratory(busybox=True)
    _, errors, code = laboratory.run(["tee", *(f"/tmp/f{at}" for at in range(1_026))], b"x\n")
    assert errors.decode().splitlines() == [f"tee: /tmp/f{at}: Too many open files" for at in (1_024, 1_025)]
    assert (code, laboratory.files.read("/tmp/f1023")) == (1, b"x\n")


def test_find_and_ls_that_follow_a_loop_of_links_end() -> None:
    laboratory = Laboratory()
    for name in "ab":
        laboratory.files.mkdir(f"/tmp/{name}", OUTSIDE)
        laboratory.files.symlink("..", f"/tmp/{name}/up", OUTSIDE)
    printed, _, _ = laboratory.run(["find", "-L", "/tmp", "-name", "up"])
    assert printed.count(b"\n") <= 4
    laboratory.run(["ls", "-RL", "/tmp"])
    assert laboratory.table.now_us < SECOND
