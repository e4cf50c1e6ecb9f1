"""The TPC-C-like program: its load, its rules, its data, and what a result shows of it."""
