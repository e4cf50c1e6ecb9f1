"""WHAT is asked: typed, immutable; and the type of one planned run."""
