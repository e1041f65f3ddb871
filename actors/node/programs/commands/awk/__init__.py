"""awk: an interpreter of the language, for bytes as text.

`tokens` and `parse` turn a program into nodes, `values` has numbers and strings, `records` reads
the input, `run` executes, and `functions` are those of the language.
"""

from __future__ import annotations

from actors.node.programs.commands.awk.run import awk

COMMANDS = {"awk": awk, "gawk": awk, "mawk": awk}
