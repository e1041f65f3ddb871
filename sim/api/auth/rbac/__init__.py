"""Role-based access control: what roles and bindings allow, without I/O."""
