"""Aggregated APIs: which services answer, their documents, and their watches."""
