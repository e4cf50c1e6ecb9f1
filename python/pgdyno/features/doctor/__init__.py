"""Checks whether this server on this host can be measured and trusted.

Thin readers gather facts. Pure functions judge these facts, one function for each check.
"""
