"""plan.next -> run -> store -> analysis -> plan.next; and a stored experiment's answer."""
