"""A plugin that cannot be imported, installed beside good ones."""

raise ImportError("libacme.so.3 is not there")
