"""The configuration file of the scheduler: its options, and its profiles.

- `profiles`: what a profile is, once it is read;
- `plugins`: which plugins there are, what each extends, and how sets of them are merged;
- `arguments`: the arguments of plugins, with defaults and checks;
- `fields`: values of a file by their types;
- `configuration`: a file and the flags beside it to the options of a scheduler.

A failure shows in `tests/unit/sim/options/scheduling`.
"""
