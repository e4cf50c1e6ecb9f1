"""Collectors of CPU time by process: the server's backends, the engine, the lab."""
