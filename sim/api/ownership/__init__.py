"""Field ownership: which manager owns which field, and server-side apply.

Each manager has a set of fields. A write moves the fields that it changes; an apply also removes
those that it no longer names, and conflicts with another manager's.
"""
