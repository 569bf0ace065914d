"""Carrying a method out: what a flow may ask for, its drivers, and the limits, caches and guards around it."""
