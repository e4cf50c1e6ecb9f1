"""plan.next -> measure -> store -> plan.next, until Stop; whoever called asks `answer` then."""
