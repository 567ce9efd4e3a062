"""Volley's own error in the texts that Spark makes of it."""

from __future__ import annotations

from volley_connectors.spark.failure import volley_error
from volley_core import ConfigError, DataError, SinkError, VolleyError

TASK = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task \
0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 (TID 0): org.apache.spark.PythonException: \
Traceback (most recent call last):
  File "worker.py", line 1, in main
volley_core.errors.TransientError: the cause.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "worker.py", line 2, in main
volley_core.errors.DataError: Object s3://b/k is not JSON:
line 3 is cut. Set on_corrupt_file.

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)

Driver stacktrace: SQLSTATE: XXKST
"""


def test_the_error_is_the_last_one_raised_and_keeps_all_its_lines() -> None:
    error = volley_error(TASK)
    assert type(error) is DataError
    assert str(error) == "Object s3://b/k is not JSON:\nline 3 is cut. Set on_corrupt_file."


def test_sparks_remark_after_the_message_is_left_out() -> None:
    text = "[PYTHON_ERROR] Traceback (most recent call last):\nvolley_core.errors.SinkError: No room. SQLSTATE: 38000"
    error = volley_error(text)
    assert type(error) is SinkError
    assert str(error) == "No room."


def test_a_config_error_stays_one() -> None:
    assert isinstance(volley_error("x\nvolley_core.errors.MissingConnectorError: Run: pip install\n\nJVM"), ConfigError)


def test_another_python_error_is_named() -> None:
    text = "Spark\nTraceback (most recent call last):\n  File\nbotocore.exceptions.NoRegionError: Specify one.\n\tat x"
    assert str(volley_error(text)) == "botocore.exceptions.NoRegionError: Specify one."


def test_what_is_sparks_own_is_cut_before_its_plan_and_stack() -> None:
    text = (
        "[UNRESOLVED_COLUMN] A column `amont` cannot be resolved.; line 1 pos 7;\n'Project\n\nJVM stacktrace:\n\tat x"
    )
    error = volley_error(text)
    assert type(error) is VolleyError
    assert str(error).startswith("[UNRESOLVED_COLUMN] A column `amont` cannot be resolved.; line 1 pos 7;")
    assert "JVM" not in str(error)


def test_a_name_that_is_no_volley_error_is_not_made_one() -> None:
    assert type(volley_error("volley_core.errors.annotations: x")) is VolleyError
