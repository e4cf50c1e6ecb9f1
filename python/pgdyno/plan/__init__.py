"""Decides which run is next, with pure functions of the question and of the runs so far."""
