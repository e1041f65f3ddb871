"""The trace of a run: its records and their hash, and trace files read back.

A record has a time, a kind, fields, and the record that caused it. The hash of all records is the
identity of a run.
"""
