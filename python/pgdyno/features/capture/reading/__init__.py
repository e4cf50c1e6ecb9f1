"""Makes a capture, a file from which the load can be made again without the user's data.

It reads a server or its logs. Stand-ins replace the values of rows, unless the user keeps them.
"""
