"""Files of other tools as scenarios: what a cluster's `kubectl get` prints, and experiments.

Each importer turns the documents of its format into an `Imported` (see `parts`): groups of nodes,
objects, steps, and notes about everything that has no counterpart.  The conversions are pure;
`sim.app.cli.commands.imports` reads and writes the files.

Holds: nothing is left out without a note, and the scenario of every import passes `orrery validate`
as far as its own objects are concerned.
"""
