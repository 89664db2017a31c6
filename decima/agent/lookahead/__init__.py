"""Search: the network proposes plans, the simulator compares their futures, the best is played."""
