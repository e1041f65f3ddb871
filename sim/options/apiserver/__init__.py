"""The options of the API server: the daemon, authentication of its clients, and audit."""
