"""NUMBERS with uncertainty: arrays in, dataclasses out; pure."""
