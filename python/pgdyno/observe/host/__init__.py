"""Collectors of the host the lab runs on: pure parsers of /proc and /sys, and who reads them."""
