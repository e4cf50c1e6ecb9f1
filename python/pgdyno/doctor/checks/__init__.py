"""The checks, grouped by what they look at; each is one small function from facts to a verdict."""
