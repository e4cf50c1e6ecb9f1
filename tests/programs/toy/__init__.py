"""A program in one folder: a market, whose sales have a limit. Only the tests know it."""
