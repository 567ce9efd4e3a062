"""Judges: readers of tables that are not ours, as programs in Java that answer for a whole run."""
