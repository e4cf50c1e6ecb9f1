"""The other nodes of a distributed server, observed by the collectors of any server."""
