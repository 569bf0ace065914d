"""The synthetic world: what is true in it, how it is worded, and the prose around it."""
