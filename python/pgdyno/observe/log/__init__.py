"""The server's log while a run lasts: events, never the contents of data."""
