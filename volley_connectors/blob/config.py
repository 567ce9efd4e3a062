"""Options of every source that is built on the blob-store pattern."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator

from volley_core import ByteSize, Seconds, SourceConfig


class BlobSourceConfig(SourceConfig):
    """What a blob source of any store can be told."""

    format: str = Field("json", description="The objects' format: the name of an installed decoder.")
    format_options: dict[str, Any] = Field(
        default_factory=dict, description="Options of that decoder, as JSON or one by one: format_options.delimiter."
    )
    max_files_per_trigger: int | None = Field(1000, gt=0, description="Most objects that one epoch takes in.")
    target_split_bytes: ByteSize = Field(
        64 * 1024 * 1024, gt=0, description="Small objects are packed into one task's work up to this size."
    )
    allow_overwrites: bool = Field(
        False,
        description="false: an object's name counts once, whatever happens to it later. true: so does each version.",
    )
    path_glob: str | None = Field(
        None,
        min_length=1,
        description="Only objects whose path below the source matches: '*.json', '2024/**/*.csv'. * stays in a folder.",
    )
    ignored: str = Field(
        r"^[._]", description="A regular expression: objects with a file or folder name that it finds are left out."
    )
    visibility_seconds: Seconds = Field(
        300.0, gt=0, description="How long a message stays hidden if the driver dies; extended while an epoch runs."
    )
    on_corrupt_file: Literal["fail", "skip"] = Field(
        "fail", description="What to do about an object that cannot be decoded; skip leaves out what is left of it."
    )
    on_missing_file: Literal["fail", "skip"] = Field(
        "fail", description="What to do about an object that was deleted or overwritten before it was read."
    )

    @field_validator("ignored")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return pattern

    @field_validator("max_rows_per_trigger")
    @classmethod
    def _rows_are_unknown(cls, rows: int | None) -> int | None:
        if rows is not None:
            raise ValueError(
                "how many rows an object holds is not known before it is read; "
                "use max_files_per_trigger or max_bytes_per_trigger"
            )
        return rows
