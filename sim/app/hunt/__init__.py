"""Hunts: a search for runs of a scenario in which what must hold does not.

A hunt draws candidates, which are ordinary scenario documents with a timeline of concrete steps,
runs them on all cores, and keeps those that fail, grouped by cause.  The search is led by what a
run shows.  A failing document is then made as small as possible, and written as a scenario file.
"""
