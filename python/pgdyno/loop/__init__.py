"""Next run -> measure -> store -> next run, until Stop; the caller asks for the answer."""
