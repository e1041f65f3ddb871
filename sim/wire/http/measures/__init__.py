"""Metrics: the families that exist, and how numbers become series of them.

A family is a value with a name, labels and buckets; what a process counts becomes its series when
they are read; the first read begins the counting, through the gate, so that a replay begins it at
the same place.
"""
