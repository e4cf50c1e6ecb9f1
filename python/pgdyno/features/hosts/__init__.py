"""Load from many hosts: Dask workers, clock offsets, one start, and records that add up."""
