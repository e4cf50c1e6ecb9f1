"""Crashes on purpose: which acknowledged commits survive, and how long recovery takes."""
