"""Admission webhooks: the choice of those to call, their questions, the effect of their answers.

The package sends nothing: it yields a question, and takes the answer as a value, from a function of
the library or from a real server.
"""
