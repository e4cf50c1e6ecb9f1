"""Makes a capture: reads a server or its logs, and keeps no value of a row."""
