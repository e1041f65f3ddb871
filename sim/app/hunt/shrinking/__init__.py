"""Shrinking: a scenario document that fails to a smaller one that fails in the same way.

`engine` goes through the passes and asks which candidates still fail; `passes` names them all.
"""
