"""Settings of PostgreSQL: a catalogue, published rules, a review, and a search by measuring."""
