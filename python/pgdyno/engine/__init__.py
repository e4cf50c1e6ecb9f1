"""The contract with the load engine: the job, the records, the stream of one engine process."""
