"""The options of the controller manager: the daemon, and its parts with options of their own."""
