"""Bugs that upstream once had, planted for tests: what a hunt has to find.

Each module holds one mistake of a controller or an agent, with its public thread and the release
that mended it.  It replaces one decision or one shell of `actors` or `sim.client` while its context
manager is open; the product has no switch for it.  The file of the same name with `.yaml` is the
scenario in which a hunter would look: it holds without the bug under all faults that it allows.
"""
