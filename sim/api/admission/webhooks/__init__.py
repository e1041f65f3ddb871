"""Admission webhooks: the choice of those to call, their questions, the effect of their answers."""
