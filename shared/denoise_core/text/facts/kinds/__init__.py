"""How each kind of fact is read."""
