"""Programs that run in simulated containers: processes, a shell, commands, files, a network.

Everything here is pure and runs in virtual time. A program is a generator that yields a `Wait`
whenever it cannot continue; a `Table` runs the processes of one pod up to their next wait and says
when it has to be run again. Nothing reads or writes a file, a socket or a process of the machine on
which the simulation runs.

`waits`, `ends`, `process` are the core that programs see; `table` runs them; `files` is what they
read and write; `shell` interprets scripts; `commands` are the tools of an image; `network` is what
they connect to; `images` says what an image runs.
"""
