"""Tools for testing code that uses or extends dpsdk; nothing here is private."""
