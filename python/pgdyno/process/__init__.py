"""Starts, watches and ends child processes; no other room does."""
