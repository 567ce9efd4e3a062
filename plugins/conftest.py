"""The plugins' tests keep the rules of all tests: see tests/conftest.py."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_spec = spec_from_file_location("volley_tests_conftest", Path(__file__).parents[1] / "tests" / "conftest.py")
assert _spec is not None
assert _spec.loader is not None
_shared = module_from_spec(_spec)
_spec.loader.exec_module(_shared)
loopback_only = _shared.loopback_only
