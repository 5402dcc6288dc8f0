"""Tools for testing code that uses or extends dpsdk; nothing here is private."""

from dpsdk.testing.noise import SeededNoise, seeded

__all__ = ["SeededNoise", "seeded"]
