"""Collectors of the hardware's own sensors: temperature, frequency, energy, wear."""
