"""Watches a server without our load: samples it, adds up the samples, and stores segments."""
