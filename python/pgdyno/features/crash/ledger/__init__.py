"""The ledger: its entries show after a crash what became of each commit."""
