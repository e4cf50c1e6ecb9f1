"""KEEP: append-only result folders."""
