"""Client configurations that a server writes: files of their own, or merged into that of kubectl."""
