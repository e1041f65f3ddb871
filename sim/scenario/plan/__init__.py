"""The plan that a run carries out, and the parts of a scenario from which it is compiled."""
