"""One folder for each program that clients run: everything that only this program knows."""
