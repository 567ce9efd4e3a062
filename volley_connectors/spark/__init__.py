"""Runs Volley connectors inside Spark."""
