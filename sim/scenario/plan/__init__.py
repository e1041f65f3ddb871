"""Compilation of a scenario document to the plan that a run carries out."""
