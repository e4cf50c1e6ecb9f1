"""A server without our load: sampled, added up, stored in segments, and told in one document."""
