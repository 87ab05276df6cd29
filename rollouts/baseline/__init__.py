"""What a world's best and simplest policies are worth, for worlds small enough to say so exactly."""
