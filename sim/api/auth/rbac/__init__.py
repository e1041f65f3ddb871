"""Role-based access control: what roles and bindings allow, without I/O.

Rules only add. The bindings of a subject are found by index, and what a subject may do is
remembered until a role or a binding changes.
"""
