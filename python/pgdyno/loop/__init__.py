"""plan.next -> run -> store -> analysis -> plan.next."""
