"""What one run costs, in each currency that a filter counts in."""
