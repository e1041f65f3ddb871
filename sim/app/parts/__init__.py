"""Parts of a cluster that only its composition root and its observers know."""
