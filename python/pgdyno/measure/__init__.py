"""Carries out one planned run. Only this room knows the order of its steps."""
