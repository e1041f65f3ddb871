"""Files that users name: read within bounds, written whole or not at all.

Turns a path into bytes, or bytes into a file at a path.  Every output of every command goes through
here.

- `replaced` is for what can be made again (reports, tables, client configurations): it is written
  beside its place and moved there when it is complete, so that a full disk or a kill leaves the
  earlier file whole.
- `growing` is for a file that is read while it is written (traces): it takes its place as soon as
  its head is written.
- `new_private` is for what cannot be made again (journals): it replaces nothing without `force`,
  and has one writer.

Holds: a file is created exclusively, under a name that cannot be guessed; no link is followed at
its last component; the mode is set on the open file.  A file that replaces another keeps the
permissions of that one, a private one has 0600. A device or a pipe is written to directly, where
the content is not private.
"""

from __future__ import annotations

import errno
import os
import secrets
import select
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module, util
from pathlib import Path
from typing import IO

from sim.errors import InputError, suggestion

FILE_MAX = 4 << 20  # bytes: a thousand times a large scenario, a token file of 50,000 users
PRIVATE_MODE, SHARED_MODE = 0o600, 0o666  # the second is reduced by the umask
WRITER_WAIT_MS = 1000  # real time for a writer of a pipe to open it
READER_WAIT_S, READER_STEP_S = 1.0, 0.02  # real time for a reader of a pipe to open it
CHUNK = 1 << 20
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK


# --- reading --------------------------------------------------------------------------------------


def read_bounded(path: Path, shown: str = "", place: str = "", size_max: int = FILE_MAX) -> bytes:
    """The content of a file, a device or a pipe that a user names.  Raises InputError, also if it
    is larger than `size_max` bytes.

    shown: how errors name the file
    place: of the option or the field that names the file.  A file that cannot be read is an error
        there, or of the file if the place is not known.
    """
    shown = shown or str(path)
    try:
        return _content(path, shown, size_max)
    except InputError as error:
        if place:
            raise InputError(f"{error.place}: {error.message}", place, error.remedy) from None
        raise


def read_text(path: Path, shown: str = "", place: str = "") -> str:
    """The text of a file that a user names, as `read_bounded` reads it.  Raises InputError; wrong
    UTF-8 is an error at its line of the file.
    """
    return utf8(read_bounded(path, shown, place), shown or str(path))


def utf8(data: bytes, shown: str) -> str:
    """The text of a file.  Raises InputError at its line."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8 text", f"{shown}:{line}", "save it as UTF-8") from None


def _content(path: Path, shown: str, size_max: int) -> bytes:
    try:
        # A pipe that nothing writes to would otherwise be waited for without end.
        descriptor = os.open(path, os.O_RDONLY | _NO_WAIT)
    except FileNotFoundError:
        raise InputError("no such file", shown, similar(path)) from None
    except ValueError:
        raise InputError("is no file name: it holds a NUL character", repr(shown)) from None
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", shown) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        os.close(descriptor)
        raise InputError("is a directory, not a file", shown)
    with open(descriptor, "rb", buffering=0) as file:
        try:
            data = b"" if not stat.S_ISFIFO(mode) else _first_of_pipe(descriptor, shown)
            os.set_blocking(descriptor, True)
            while len(data) <= size_max and (more := file.read(min(CHUNK, size_max + 1 - len(data)))):
                data += more
        except OSError as error:
            raise InputError(error.strerror or "cannot be read", shown) from None
    if len(data) > size_max:
        raise InputError(f"the file has more than {size_max} bytes", shown)
    return data


def similar(path: Path) -> str:
    """The remedy for the name of a file that does not exist: the most similar one in its folder."""
    try:
        names = sorted(os.listdir(path.parent))
    except OSError:
        return ""
    return suggestion(path.name, [name for name in names if not name.startswith(".")], similarity_min=0.75)


def _first_of_pipe(descriptor: int, shown: str) -> bytes:
    """The present content of a pipe; empty if its writer has written nothing. Raises InputError
    without a writer.
    """
    for wait_ms in (WRITER_WAIT_MS, 0):
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return b""
        if data:
            return data
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(wait_ms)
    raise InputError("is a pipe that nothing writes to", shown)


# --- writing --------------------------------------------------------------------------------------


def check_output(path: Path, private: bool = False) -> None:
    """Refuses a place where a file cannot or must not be written, before the work for its content
    begins.

    private: its content is for its owner only. Raises InputError.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        found = None
    except NotADirectoryError:
        raise InputError(f"there is no folder {path.parent}", str(path)) from None
    except OSError as error:
        raise InputError(error.strerror or "cannot be written", str(path)) from None
    if found is not None and stat.S_ISLNK(found.st_mode):
        if private or not _is_special(path):
            raise InputError("is a link, which is not followed", str(path), "name the file itself")
        found = path.stat()
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise InputError("is a folder, not a file", str(path))
    if found is not None and not stat.S_ISREG(found.st_mode):
        if private:
            raise InputError("is no ordinary file", str(path))
        writable = os.access(path, os.W_OK)
    else:
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent}", str(path))
        writable = os.access(path.parent, os.W_OK) and (found is None or os.access(path, os.W_OK))
    if not writable:
        raise InputError("cannot be written", str(path))


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Replace a file by this text, in UTF-8.  Raises InputError, OSError."""
    with replaced(path, private=private) as file:
        file.write(text.encode())


@contextmanager
def replaced(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` at the end of the block; an exception leaves what was
    there.

    Raises InputError where there must not be one, OSError with the name of the file where it cannot
    be written.
    """
    check_output(path, private)
    with _named(path):
        if _is_special(path):
            with open(_opened_special(path), "wb") as file:
                yield file
            return
        descriptor, part = _part_of(path, private)
        try:
            with open(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(descriptor)
            os.replace(part, path)
        except BaseException:
            _remove(part)
            raise
        _sync_folder(path)


def growing(path: Path, head: bytes) -> IO[bytes]:
    """A file that is read while it is written; it takes the place of `path` with this beginning.

    Raises InputError, OSError.
    """
    check_output(path)
    with _named(path):
        if _is_special(path):
            descriptor = _opened_special(path)
            write_all(descriptor, head)
            return open(descriptor, "wb")
        descriptor, part = _part_of(path, private=False)
        try:
            write_all(descriptor, head)
            os.replace(part, path)
        except BaseException:
            os.close(descriptor)
            _remove(part)
            raise
        return open(descriptor, "wb")


def new_private(path: Path, head: bytes, *, force: bool) -> int:
    """The descriptor of a new file for its owner only, with this beginning; only this process may
    write it.

    An existing file is refused; `force` replaces it, unless another process is writing it. Raises
    InputError, OSError.
    """
    check_output(path, private=True)
    with _named(path):
        earlier = _claimed(path, force)
        try:
            if earlier is None:
                descriptor, made = _created(path, PRIVATE_MODE), path
            else:
                descriptor, made = _part_of(path, private=True)
            try:
                claim(descriptor)
                write_all(descriptor, head)
                os.fsync(descriptor)
                if made is not path:
                    os.replace(made, path)
            except BaseException:
                os.close(descriptor)
                _remove(made)
                raise
        finally:
            if earlier is not None:
                os.close(earlier)
        _sync_folder(path)
        return descriptor


def _claimed(path: Path, force: bool) -> int | None:
    """The descriptor of the file that is to be replaced, locked; None if there is none.  Raises
    InputError.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDONLY | _NO_LINK | _NO_WAIT)
        except FileNotFoundError:
            return None
        if not claim(descriptor):
            os.close(descriptor)
            raise InputError("another process is writing it", str(path), "end that one, or name another file")
        if not force:
            os.close(descriptor)
            raise InputError("exists already", str(path), "name another file, or --force replaces it")
        try:
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)  # it was replaced before it was locked


def claimed_folder(folder: Path, lock: str, owner: str) -> int:
    """Make a folder that is its user's alone, and lock it; returns the descriptor of its lock.

    lock: the name of the lock in it
    owner: what holds it, for the message
    Raises InputError if it cannot be made, or if another process holds it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / lock, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(f"cannot be used: {error.strerror}", str(folder)) from None
    if not claim(descriptor):
        raise InputError(f"is used by another {owner}", str(folder), "end it, or name another folder")
    return descriptor


def claim(descriptor: int) -> bool:
    """Locks an open file against other processes that lock it; False if one of them holds the lock.

    True without a lock on systems and network file systems that have none. The lock ends with the
    descriptor.
    """
    if util.find_spec("fcntl") is None:
        return True
    fcntl = import_module("fcntl")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
            raise
    return True


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, or raise OSError."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _is_special(path: Path) -> bool:
    """True for a device, a pipe or a socket, which cannot be replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _opened_special(path: Path) -> int:
    """The descriptor of a device or a pipe, to write to.  Raises InputError for a pipe that nothing
    reads: it would be waited for without end.
    """
    deadline_s = time.monotonic() + READER_WAIT_S
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | _NO_WAIT)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() >= deadline_s:
                raise InputError("is a pipe that nothing reads", str(path)) from None
            time.sleep(READER_STEP_S)
        else:
            os.set_blocking(descriptor, True)
            return descriptor


def _part_of(path: Path, private: bool) -> tuple[int, Path]:
    """A new file beside `path`, with the permissions that the file there is to have."""
    part = path.with_name(f".orrery-{secrets.token_hex(8)}.part")
    descriptor = _created(part, PRIVATE_MODE if private else SHARED_MODE)
    if not private and path.exists():
        os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode) & 0o777)
    return descriptor, part


def _created(path: Path, mode: int) -> int:
    descriptor = os.open(path, _CREATE, mode)
    if mode == PRIVATE_MODE:
        os.fchmod(descriptor, mode)  # the umask may have left less than the owner needs
    return descriptor


def _remove(part: Path) -> None:
    with suppress(OSError):
        part.unlink()


def _sync_folder(path: Path) -> None:
    """Put the new name on the disk; some file systems cannot."""
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of the system name the file that was asked for."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
