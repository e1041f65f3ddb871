"""Table columns of kinds: the rows that kubectl prints."""
