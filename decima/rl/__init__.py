"""Learning by policy gradient, whatever is scheduled: nothing here knows what a job is."""
