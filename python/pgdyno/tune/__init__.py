"""Settings: the catalogue, published rules, the review of a server, the search for better ones."""
