"""The API client of a process: verbs, rate limits, and the in-process transport."""
