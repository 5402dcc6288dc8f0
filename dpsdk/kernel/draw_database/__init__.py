"""Drawing a small database from the exponential mechanism, exactly."""
