"""What runs on the load hosts; it is sent to them, so it imports nothing of pgdyno."""
