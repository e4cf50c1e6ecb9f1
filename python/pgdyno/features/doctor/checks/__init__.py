"""The checks, grouped by subject; each is one small function from facts to a verdict."""
