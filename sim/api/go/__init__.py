"""How Go prints, orders and encodes, in one place: names of types, orders of fields, texts."""
