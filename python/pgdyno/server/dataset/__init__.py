"""Tables that pgdyno makes: their kinds, what a database has of them, their removal."""
