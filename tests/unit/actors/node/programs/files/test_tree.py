"""Paths, permissions and limits of the files that a container sees, as Linux has them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.node.programs.files.errors import FileError
from actors.node.programs.files.handles import APPENDING, READING, WRITING, Open
from actors.node.programs.files.inodes import BLOCK, HELD_MAX, OUTSIDE, Directory, File, Filesystem
from actors.node.programs.files.tree import LINKS_MAX, Mount, Tree, Volume
from actors.node.programs.process import Identity


class User:
    """A caller that is not root."""

    cwd = "/home"
    identity = Identity(1000, 1000, (2000,))
    umask = 0o022


USER = User()


def tree(*mounts: Mount, bytes_max: int = 1 << 30, inodes_max: int = 1000, read_only: bool = False) -> Tree:
    """A tree with two directories."""
    volume = Volume(Filesystem(bytes_max=bytes_max, inodes_max=inodes_max))
    made = Tree(volume, (), lambda: 7)
    for path in ("/home", "/tmp"):
        made.mkdir(path, OUTSIDE, 0o755)
    made.chmod("/tmp", OUTSIDE, 0o1777)
    return Tree(volume, mounts, lambda: 7, read_only=read_only)


def code(call: Callable[[], object]) -> str:
    """The error that a call raises."""
    with pytest.raises(FileError) as caught:
        call()
    return caught.value.code


def test_dots_beyond_the_root_stay_in_the_root() -> None:
    files = tree()
    files.write("/../../etc", b"x")
    assert files.read("/home/../../../../etc") == b"x"
    assert files.walk("../../../..", USER).path == "/"


def test_paths_that_are_too_long_or_have_a_nul_are_refused() -> None:
    files = tree()
    assert code(lambda: files.lookup("/" + "n" * 256, USER)) == "ENAMETOOLONG"
    assert code(lambda: files.lookup("/" + "n" * 255, USER)) == "ENOENT"
    assert code(lambda: files.lookup("/" + "a/" * 2048, USER)) == "ENAMETOOLONG"
    assert code(lambda: files.lookup("/a\0b", USER)) == "EINVAL"
    assert code(lambda: files.lookup("", USER)) == "ENOENT"


def test_a_loop_of_links_and_too_long_a_chain_of_them_end_with_eloop() -> None:
    files = tree()
    files.symlink("b", "/a", OUTSIDE)
    files.symlink("a", "/b", OUTSIDE)
    assert code(lambda: files.read("/a")) == "ELOOP"
    files.write("/0", b"end")
    for number in range(LINKS_MAX + 1):
        files.symlink(str(number), f"/{number + 1}", OUTSIDE)
    assert files.read(f"/{LINKS_MAX}") == b"end"
    assert code(lambda: files.read(f"/{LINKS_MAX + 1}")) == "ELOOP"


def test_a_link_out_of_the_root_leads_into_the_root() -> None:
    files = tree()
    files.symlink("../../../../home", "/tmp/up", OUTSIDE)
    files.write("/tmp/up/f", b"1")
    assert files.read("/home/f") == b"1"


def test_a_user_needs_permissions_for_each_step() -> None:
    files = tree()
    files.mkdir("/secret", OUTSIDE, 0o700)
    files.write("/secret/f", b"", mode=0o666)
    files.write("/ours", b"1", mode=0o640)
    assert code(lambda: files.lookup("/secret/f", USER)) == "EACCES"
    assert code(lambda: files.open("/ours", USER, READING)) == "EACCES"
    files.chown("/ours", OUTSIDE, -1, 2000)
    assert files.read("/ours", USER) == b"1"
    assert code(lambda: files.open("/ours", USER, WRITING)) == "EACCES"
    assert code(lambda: files.open("/home/new", USER, WRITING)) == "EACCES"
    files.write("/tmp/mine", b"", USER)
    assert (files.lookup("/tmp/mine", USER).mode, files.lookup("/tmp/mine", USER).uid) == (0o644, 1000)
    assert code(lambda: files.chmod("/ours", USER, 0o777)) == "EPERM"
    assert code(lambda: files.chown("/tmp/mine", USER, 0, 0)) == "EPERM"


def test_a_file_of_another_in_a_sticky_directory_cannot_be_removed() -> None:
    files = tree()
    files.write("/tmp/theirs", b"")
    assert code(lambda: files.unlink("/tmp/theirs", USER)) == "EPERM"


def test_a_set_group_id_directory_hands_its_group_down() -> None:
    files = tree()
    files.mkdir("/data", OUTSIDE, 0o775)
    files.chown("/data", OUTSIDE, 0, 2000)
    files.chmod("/data", OUTSIDE, 0o2775)
    files.mkdir("/data/sub", USER)
    files.write("/data/sub/f", b"", USER)
    sub, file = files.lookup("/data/sub", USER), files.lookup("/data/sub/f", USER)
    assert (sub.gid, sub.mode, file.gid, file.mode) == (2000, 0o2755, 2000, 0o644)


def test_a_read_only_root_refuses_writes_but_its_volumes_take_them() -> None:
    data = Volume(Filesystem("tmpfs"))
    files = tree(Mount("/tmp/data", data.root), read_only=True)
    assert code(lambda: files.write("/tmp/x", b"")) == "EROFS"
    assert code(lambda: files.unlink("/home", OUTSIDE)) == "EROFS"
    files.write("/tmp/data/x", b"1")
    assert code(lambda: files.rename("/tmp/data/x", "/tmp/x", OUTSIDE)) == "EXDEV"
    assert code(lambda: files.rmdir("/tmp/data", OUTSIDE)) == "EBUSY"


def test_a_volume_that_two_containers_mount_shows_both_the_same_file() -> None:
    volume = Volume(Filesystem())
    writer = tree(Mount("/out", volume.root))
    reader = tree(Mount("/a/b/in", volume.part("x/y"), read_only=True))
    writer.write("/out/x/y/f", b"data")
    assert reader.read("/a/b/in/f") == b"data"
    assert code(lambda: reader.write("/a/b/in/f", b"")) == "EROFS"


def test_a_sub_path_does_not_leave_its_volume_by_a_link() -> None:
    volume = Volume(Filesystem(), mode=0o750)
    files = tree(Mount("/v", volume.root))
    files.mkdir("/v/home", OUTSIDE)
    files.symlink("/home", "/v/out", OUTSIDE)
    part = volume.part("out/d")
    assert isinstance(part, Directory)
    assert part.mode == 0o750
    assert files.listdir("/v", OUTSIDE) == ["home", "out"]


def test_a_full_filesystem_takes_what_fits_and_then_nothing() -> None:
    files = tree(bytes_max=5 * BLOCK)  # two directories and their names take two
    end = files.open("/f", OUTSIDE, WRITING)
    assert end.write(b"x" * 4 * BLOCK) == 2 * BLOCK
    assert code(lambda: end.write(b"x")) == "ENOSPC"
    files.unlink("/f", OUTSIDE)
    assert code(lambda: files.mkdir("/d", OUTSIDE)) == "ENOSPC"  # the file is open
    end.close()
    files.mkdir("/d", OUTSIDE)


def test_inodes_are_counted_and_limited() -> None:
    files = tree(inodes_max=5)
    files.write("/1", b"")
    files.link("/1", "/2", OUTSIDE)
    files.symlink("1", "/3", OUTSIDE)
    assert code(lambda: files.write("/4", b"")) == "ENOSPC"
    files.unlink("/1", OUTSIDE)
    assert code(lambda: files.write("/4", b"")) == "ENOSPC"
    files.unlink("/2", OUTSIDE)
    files.write("/4", b"")


def test_zeros_take_room_but_no_memory_and_other_bytes_have_a_limit() -> None:
    files = tree(bytes_max=1 << 40)
    end = files.open("/zeros", OUTSIDE, WRITING)
    for _ in range(4):
        end.write(bytes(1 << 20))
    file = files.lookup("/zeros", OUTSIDE)
    assert isinstance(file, File)
    assert (file.size, len(file.held), file.read((4 << 20) - 2, 9)) == (4 << 20, 0, b"\0\0")
    other = files.open("/x", OUTSIDE, WRITING)
    files.truncate("/x", OUTSIDE, HELD_MAX)
    far = files.open("/x", OUTSIDE, APPENDING)
    assert code(lambda: far.write(b"far")) == "ENOSPC"
    assert other.write(b"near") == 4
    files.unlink("/zeros", OUTSIDE)
    for handle in (end, other, far):
        handle.close()
    files.unlink("/x", OUTSIDE)
    assert file.filesystem.bytes_used == 3 * BLOCK
    assert file.filesystem.held == 0


def test_names_change_as_rename_says() -> None:
    files = tree()
    files.mkdir("/a", OUTSIDE)
    files.mkdir("/a/b", OUTSIDE)
    files.write("/f", b"1")
    assert code(lambda: files.rename("/a", "/a/b/c", OUTSIDE)) == "EINVAL"
    assert code(lambda: files.rename("/f", "/a", OUTSIDE)) == "EISDIR"
    assert code(lambda: files.rename("/a", "/f", OUTSIDE)) == "ENOTDIR"
    assert code(lambda: files.rename("/tmp", "/a", OUTSIDE)) == "ENOTEMPTY"
    assert code(lambda: files.rmdir("/a", OUTSIDE)) == "ENOTEMPTY"
    files.rename("/f", "/a/g", OUTSIDE)
    files.rename("/a/b", "/tmp/b", OUTSIDE)
    assert (files.listdir("/a", OUTSIDE), files.read("/a/g")) == (["g"], b"1")


def test_opening_follows_its_flags() -> None:
    files = tree()
    files.write("/f", b"abc")
    assert code(lambda: files.open("/f", OUTSIDE, Open.WRITE | Open.CREATE | Open.EXCLUSIVE)) == "EEXIST"
    assert code(lambda: files.open("/tmp", OUTSIDE, WRITING)) == "EISDIR"
    assert code(lambda: files.open("/f/x", OUTSIDE)) == "ENOTDIR"
    assert code(lambda: files.open("/new/", OUTSIDE, WRITING)) == "EISDIR"
    assert code(lambda: files.open("/f", OUTSIDE, READING).write(b"x")) == "EBADF"
    end = files.open("/f", OUTSIDE, APPENDING)
    end.write(b"d")
    assert files.read("/f") == b"abcd"
