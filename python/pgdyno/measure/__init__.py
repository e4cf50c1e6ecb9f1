"""DO one planned run; the only place with the order of its steps."""
