"""The verbs of the API as generators of store operations.

A verb is a generator: it yields a read, a conditional write or a question, and gets the result. So
the same code runs on a store that answers at once and on one that takes time or fails.
"""
