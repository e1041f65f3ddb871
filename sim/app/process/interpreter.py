"""How the Python that runs was built: with the guidance of a profile, or up to 1.7 times slower.

`dev.py` uses this file without the packages of Orrery, and runs it as a program of another Python
to ask that one; it imports nothing but the standard library.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Mapping
from typing import Any

GUIDED = "built with profile-guided optimization"
UNGUIDED = "built without profile-guided optimization: runs take up to 1.7 times as long"
UNKNOWN = "its build does not say whether with profile-guided optimization"


def profile_guided(variables: Mapping[str, Any]) -> bool | None:
    """True if Python was built with the guidance of a profile; None if that cannot be known.

    The argument holds the variables of `sysconfig`.  The build asks for the optimization by an
    argument of `configure`.  Debian calls its target of the Makefile instead, and then empties the
    flag that uses the profile, which every other build on Unix keeps.  On Windows nothing is
    recorded.
    """
    arguments = variables.get("CONFIG_ARGS")
    if arguments is None:
        return None
    if "--enable-optimizations" in arguments:
        return True
    return bool(variables.get("PGO_PROF_GEN_FLAG")) and variables.get("PGO_PROF_USE_FLAG") == ""


def described() -> str:
    """The Python that runs: its version, and how it was built."""
    guided = profile_guided(sysconfig.get_config_vars())
    build = {True: GUIDED, False: UNGUIDED, None: UNKNOWN}[guided]
    return f"{platform.python_implementation()} {platform.python_version()}, {build}"


if __name__ == "__main__":
    print(f"{sys.version_info[0]}.{sys.version_info[1]}", profile_guided(sysconfig.get_config_vars()))
