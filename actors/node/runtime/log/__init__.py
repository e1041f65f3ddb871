"""What programs of containers write: lines with times, and the files that hold them."""
