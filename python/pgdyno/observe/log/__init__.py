"""The server's log while a run lasts: what happened, never what was said of somebody's data."""
