"""A judge of one's own, asked live: which pair next, what was answered, when to stop."""
