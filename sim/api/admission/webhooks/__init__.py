"""Admission webhooks: which are called for a request, what they are asked, what their answers do."""
