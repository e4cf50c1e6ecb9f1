"""WHAT the user asks, as typed immutable models; and the type of one planned run."""
