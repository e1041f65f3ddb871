"""Images that no registry holds, by their names.  Pure.

Turns the name of an image and a list of globs into the error with which a pull of it fails.

Mirrors  containerd remotes/docker/resolver.go: the errors of an image that is not found, and of a
         registry with a name that cannot be resolved (1.6).
Differs  there are no registries: the globs decide, of which a scenario may give its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

# Names that examples use for images that do not exist. RFC 2606 reserves `.invalid` for names that
# cannot be resolved.
MISSING_IMAGES = (
    "*:404", "*nonexist*", "*non-existent*", "*non-existing*", "invalid.example[:/]*", "*.invalid[:/]*",
)  # fmt: skip


@lru_cache(maxsize=4096)
def pull_error(image: str, globs: Sequence[str]) -> str | None:
    """The error of a pull of the image; None if some registry holds it."""
    if not any(fnmatchcase(image, glob) for glob in globs):
        return None
    head, slash, rest = image.partition("/")
    if not slash or not ("." in head or ":" in head or head == "localhost"):
        head, rest = "docker.io", image if slash else f"library/{image}"
    name, digest = rest.partition("@")[0], "@" in rest
    tagged = rest if digest or ":" in name else f"{rest}:latest"
    reference = f"{head}/{tagged}"
    failed = f'failed to pull and unpack image "{reference}": failed to resolve reference "{reference}": '
    host = head.partition(":")[0]
    if host == "invalid.example" or host.endswith(".invalid"):
        path, _, tag = tagged.replace("@", ":", 1).partition(":")
        url = f"https://{head}/v2/{path}/manifests/{tag}"
        why = f'failed to do request: Head "{url}": dial tcp: lookup {host}: no such host'
        return f"rpc error: code = Unknown desc = {failed}{why}"
    return f"rpc error: code = NotFound desc = {failed}{reference}: not found"
