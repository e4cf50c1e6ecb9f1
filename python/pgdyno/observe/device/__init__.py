"""Collectors of what the hardware tells of itself: temperature, frequency, energy, wear."""
