"""WHICH run next: pure functions of the question and of what was measured so far."""
