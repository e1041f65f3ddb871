"""The controllers of bootstrap tokens, both off unless `--controllers` names them."""
