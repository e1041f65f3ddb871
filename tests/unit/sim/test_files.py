"""Files of users: read within bounds; written whole or not at all, exclusively, through no link."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sim import files
from sim.errors import InputError
from sim.files import check_output, growing, new_private, read_bounded, replaced, write_text
from tests.unit.sim.disks import file_size_limit


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


# --- reading --------------------------------------------------------------------------------------


def test_device_without_end_is_read_up_to_the_bound_and_refused() -> None:
    with pytest.raises(InputError, match="/dev/zero: the file has more than 1000 bytes"):
        read_bounded(Path("/dev/zero"), size_max=1000)


def test_pipe_without_writer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WRITER_WAIT_MS", 1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe: is a pipe that nothing writes to"):
        read_bounded(tmp_path / "pipe", size_max=1000)


def test_pipe_with_a_writer_is_read_to_its_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * 200_000,))
    writer.start()
    assert read_bounded(pipe) == b"x" * 200_000
    writer.join()


def test_file_name_with_a_nul_character_is_refused() -> None:
    with pytest.raises(InputError, match=r"'a\\x00b': is no file name: it holds a NUL character"):
        read_bounded(Path("a\0b"))


def test_absent_file_and_folder_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="shown: no such file"):
        read_bounded(tmp_path / "absent", "shown")
    with pytest.raises(InputError, match="is a directory, not a file"):
        read_bounded(tmp_path)


# --- replacing ------------------------------------------------------------------------------------


def test_failed_write_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("yesterday")
    with pytest.raises(OSError, match="File too large") as caught, file_size_limit(1000):
        write_text(path, "x" * 5000)
    assert caught.value.filename == str(path)
    assert (path.read_text(), os.listdir(tmp_path)) == ("yesterday", ["report"])


def test_interrupted_write_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("yesterday")
    with pytest.raises(KeyboardInterrupt), replaced(path) as file:
        file.write(b"half")
        assert path.read_text() == "yesterday"
        raise KeyboardInterrupt
    assert (path.read_text(), os.listdir(tmp_path)) == ("yesterday", ["report"])


def test_replaced_file_keeps_its_permissions_and_a_new_one_has_the_usual(tmp_path: Path) -> None:
    with umask(0o022):
        write_text(tmp_path / "new", "x")
        (tmp_path / "old").touch(0o600)
        write_text(tmp_path / "old", "x")
    assert (mode(tmp_path / "new"), mode(tmp_path / "old")) == (0o644, 0o600)


@pytest.mark.parametrize("mask", [0, 0o777])
def test_private_file_is_for_its_owner_only_after_any_earlier_file(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "config"
    path.touch(0o644)
    with umask(mask):
        write_text(path, "key", private=True)
    assert (path.read_text(), mode(path)) == ("key", 0o600)


@pytest.mark.parametrize("target", ["there", "absent"])
@pytest.mark.parametrize("private", [True, False])
def test_link_is_refused_and_its_target_left_alone(tmp_path: Path, target: str, private: bool) -> None:
    (tmp_path / "there").write_text("mine")
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(InputError, match="link: is a link, which is not followed"):
        write_text(tmp_path / "link", "x", private=private)
    assert (sorted(os.listdir(tmp_path)), (tmp_path / "there").read_text()) == (["link", "there"], "mine")


def test_device_is_written_to_and_not_replaced() -> None:
    write_text(Path(os.devnull), "x")
    growing(Path(os.devnull), b"x").close()
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda folder: folder, "is a folder, not a file"),
        (lambda folder: folder / "none" / "f", "there is no folder"),
        (lambda folder: Path(os.devnull), "is no ordinary file"),
    ],
)
def test_private_file_at_a_place_where_none_can_be_is_refused(
    tmp_path: Path, make: Callable[[Path], Path], why: str
) -> None:
    with pytest.raises(InputError, match=why):
        check_output(make(tmp_path), private=True)


# --- files that grow ------------------------------------------------------------------------------


def test_growing_file_can_be_read_at_its_place_from_its_beginning_on(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("yesterday")
    with path.open() as earlier, growing(path, b"head") as file:
        assert path.read_bytes() == b"head"
        file.write(b" and more")
        file.flush()
        assert (path.read_bytes(), earlier.read()) == (b"head and more", "yesterday")


def test_growing_file_without_a_written_head_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("yesterday")
    with pytest.raises(OSError, match="File too large"), file_size_limit(10):
        growing(path, b"x" * 100)
    assert (path.read_text(), os.listdir(tmp_path)) == ("yesterday", ["trace"])


# --- files that replace nothing -------------------------------------------------------------------


def test_existing_file_is_refused_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text("yesterday")
    path.chmod(0o644)
    with pytest.raises(InputError, match=r"journal: exists already .*--force replaces it"):
        new_private(path, b"head", force=False)
    assert path.read_text() == "yesterday"
    os.close(new_private(path, b"head", force=True))
    assert (path.read_bytes(), mode(path), os.listdir(tmp_path)) == (b"head", 0o600, ["journal"])


@pytest.mark.parametrize("force", [False, True])
def test_file_that_is_being_written_is_refused_also_by_force(tmp_path: Path, force: bool) -> None:
    path = tmp_path / "journal"
    descriptor = new_private(path, b"head", force=False)
    with pytest.raises(InputError, match="journal: another process is writing it"):
        new_private(path, b"other", force=force)
    os.close(descriptor)
    assert path.read_bytes() == b"head"
    os.close(new_private(path, b"other", force=True))


def test_forced_file_without_a_written_head_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text("yesterday")
    with pytest.raises(OSError, match="File too large"), file_size_limit(10):
        new_private(path, b"x" * 100, force=True)
    assert (path.read_text(), os.listdir(tmp_path)) == ("yesterday", ["journal"])


def test_new_file_without_a_written_head_leaves_none(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File too large"), file_size_limit(10):
        new_private(tmp_path / "journal", b"x" * 100, force=False)
    assert os.listdir(tmp_path) == []
