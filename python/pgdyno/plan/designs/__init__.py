"""One file for each design: the class that decides WHICH run is next."""
