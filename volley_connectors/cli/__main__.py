"""`python -m volley_connectors.cli`, for interpreters whose scripts are not on PATH."""

from volley_connectors.cli import main

main()
