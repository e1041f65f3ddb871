"""Field ownership: which manager owns which field, and server-side apply."""
