"""Strips of telemetry: what is drawn (one file a room of the catalogue), and how."""
