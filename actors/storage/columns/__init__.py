"""Columnar renewals: lease renewals of many nodes, computed with arrays.

A renewal changes one time of one lease; thousands that are due in one second become some array
operations, and single items are made when they are read.
"""
