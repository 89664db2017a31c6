"""Search: the network proposes plans, the simulator looks ahead, the best plan is played."""
