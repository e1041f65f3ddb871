"""The fast paths of the API server: requests served with less work and equal results.

Each has a guard of everything that the ordinary path would check. When the guard does not hold,
nothing has been drawn or written, and the ordinary path runs.
"""
