"""The server's log during a run: events, never texts of statements or contents of data."""
