"""The store keeps everything that was measured, in folders that only grow."""
