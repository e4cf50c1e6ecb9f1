"""A capture: the load of a user's server in one file, without the values of its rows."""
