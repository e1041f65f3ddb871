"""What can go wrong with a file, under Linux' names, and the texts that programs print.

Mirrors  errno(3), strerror(3) of glibc and musl, which agree in these texts.
"""

from __future__ import annotations

TEXTS = {
    "EACCES": "Permission denied",
    "EBADF": "Bad file descriptor",
    "EBUSY": "Device or resource busy",
    "EEXIST": "File exists",
    "EFBIG": "File too large",
    "EINVAL": "Invalid argument",
    "EIO": "Input/output error",
    "EISDIR": "Is a directory",
    "ELOOP": "Too many levels of symbolic links",
    "EMFILE": "Too many open files",
    "EMLINK": "Too many links",
    "ENAMETOOLONG": "File name too long",
    "ENODEV": "No such device",
    "ENOENT": "No such file or directory",
    "ENOEXEC": "Exec format error",
    "ENOSPC": "No space left on device",
    "ENOTDIR": "Not a directory",
    "ENOTEMPTY": "Directory not empty",
    "ENOTTY": "Inappropriate ioctl for device",
    "ENXIO": "No such device or address",
    "EPERM": "Operation not permitted",
    "EROFS": "Read-only file system",
    "EXDEV": "Invalid cross-device link",
}


class FileError(Exception):
    """An operation on a file failed.

    code: Linux' name of the error; path: the path as the caller gave it
    """

    def __init__(self, code: str, path: str = "") -> None:
        super().__init__(code, path)
        self.code = code
        self.path = path

    @property
    def text(self) -> str:
        """What programs print."""
        return TEXTS[self.code]
