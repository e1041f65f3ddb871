"""Rules that several kinds share.

A rule is a function from a value and the name of its field to errors in upstream's words, so that a
kind's validation is a list of calls.
"""
