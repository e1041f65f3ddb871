"""The `orrery` command.

One module of `commands` for each group of subcommands; each declares its arguments and calls the
library, which does the work.
"""
