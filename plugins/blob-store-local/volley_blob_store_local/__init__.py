"""A directory as blob store, queue and sink."""
