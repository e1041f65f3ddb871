"""The kinds of the group batch."""
