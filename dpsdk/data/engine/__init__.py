"""Tables that stay where they are: what their engine computes, so that only counts come back."""
