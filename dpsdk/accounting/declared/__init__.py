"""What is known beforehand: runs that are all declared before the first answer."""
