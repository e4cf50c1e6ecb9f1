"""WHICH run next; pure."""
