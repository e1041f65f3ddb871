"""Aggregation: group versions that other servers answer, their availability, order and headers.

Such a group version has no kinds here: the server that answers it says what it serves, and this
package says when it is used and what is passed on.
"""
