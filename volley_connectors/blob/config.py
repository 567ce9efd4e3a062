"""Options of every source that is built on the blob-store pattern."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from volley_connectors.moments import parse_moment
from volley_connectors.state import StateStore
from volley_core import ByteSize, Seconds, SourceConfig
from volley_core.schema import ArrowSchema


class BlobSourceConfig(SourceConfig):
    """What a blob source of any store can be told."""

    QUEUE_OPTION: ClassVar[str | None] = None
    """Which option names the queue, where there can be one."""

    format: str = Field(
        "json",
        description="The objects' format: the name of an installed decoder, or auto: told by the ending of each name.",
    )
    format_options: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of that decoder, as JSON or one by one: format_options.delimiter. With auto, JSON of "
        "options by format: {'csv': {'delimiter': ';'}}.",
    )
    max_files_per_trigger: int | None = Field(1000, gt=0, description="Most objects that one epoch takes in.")
    target_split_bytes: ByteSize = Field(
        64 * 1024 * 1024, gt=0, description="Small objects are packed into one task's work up to this size."
    )
    allow_overwrites: bool = Field(
        False,
        description="false: an object's name counts once, whatever happens to it within max_file_age. true: so does "
        "each version, except one that comes after a later one of its name, where the store tells their order.",
    )
    max_file_age: Seconds = Field(
        14 * 24 * 3600.0,
        gt=0,
        description="How long it is remembered that an object was read. One that is found when it is older is not "
        "read, but counted and warned about, except what was there before the first start. Objects are as old as the "
        "store says, and so is a file that was moved here with its old date.",
    )
    manifest_retention: Seconds = Field(
        30 * 24 * 3600.0,
        gt=0,
        description="How long it is known which epoch read an object (volley files), and how old a checkpoint can be "
        "that is gone back to. Never less than max_file_age, nor than the last 1,000 epochs.",
    )
    path_glob: str | None = Field(
        None,
        min_length=1,
        description="Only objects whose path below the source matches: '*.json', '2024/**/*.csv'. * stays in a folder.",
    )
    regex: str | None = Field(
        None,
        min_length=1,
        description="Only objects in whose path below the source this regular expression is found: '_v[0-9]+/'.",
    )
    ignored: str = Field(
        r"^[._]", description="A regular expression: objects with a file or folder name that it finds are left out."
    )
    discovery: Literal["notifications", "listing", "both"] | None = Field(
        None,
        description="How new objects are found: announced through a queue, by listing the store, or through the queue "
        "and by a listing at the start and every backfill_interval. Not given: through the queue if one is named. It "
        "may change between runs.",
    )
    include_existing_files: bool | None = Field(
        None,
        description="Whether to read what was there before the first start. Not given: yes, but not from a queue "
        "without state_location, which could not remember that it was done.",
    )
    backfill_interval: Seconds = Field(
        24 * 3600.0,
        gt=0,
        description="How often discovery = both lists the store, for objects whose announcement got lost.",
    )
    delay_seconds: Seconds = Field(
        0.0, ge=0, le=6 * 3600, description="Objects are read when they are so old, not sooner."
    )
    foreign_events: Literal["ack", "leave"] = Field(
        "ack",
        description="What to do about messages of objects elsewhere than here: delete them, or leave them in the "
        "queue for others.",
    )
    fetch_concurrency: int = Field(8, gt=0, le=64, description="How many polls of the queue may run at once.")
    visibility_seconds: Seconds = Field(
        300.0, gt=0, description="How long a message stays hidden if the driver dies; extended while an epoch runs."
    )
    on_bad_record: Literal["fail", "drop", "rescue", "dead_letter"] = Field(
        "fail",
        description="What to do about a record that cannot be read or does not fit the schema. rescue: its values that "
        "do not fit go to the column _rescued_data. fail: its object counts as corrupt.",
    )
    on_corrupt_file: Literal["fail", "skip", "dead_letter"] = Field(
        "fail", description="What to do about an object that cannot be decoded; skip leaves out what is left of it."
    )
    on_missing_file: Literal["fail", "skip"] = Field(
        "fail", description="What to do about an object that was deleted or overwritten before it was read."
    )
    dead_letter_path: str | None = Field(
        None,
        min_length=1,
        description="Where dead letters go, as Parquet files: a path or an s3://, az://, gs:// address.",
    )
    rescued_data: bool = Field(
        False,
        description="Add a column _rescued_data: what a record holds and the schema lacks, as JSON.",
    )
    include_metadata: bool = Field(
        False,
        description="Add a struct column _metadata: file_path, file_name, file_size, file_modification_time, "
        "event_time, message_id, row_index. Big objects are then not cut, so that rows can be counted.",
    )
    partition_columns: list[str] | None = Field(
        None,
        description="Columns whose values come from the path (year=2024/). Not given: every such folder's; []: none.",
    )
    schema_hints: ArrowSchema | None = Field(
        None, description="Types of some columns where the schema is inferred: 'id bigint, paid decimal(10,2)'."
    )
    schema_location: str | None = Field(
        None, min_length=1, description="Where an inferred schema is remembered, if not at state_location."
    )
    infer_sample_files: int = Field(10, gt=0, description="Most objects that a schema is inferred from.")
    infer_sample_bytes: ByteSize = Field(
        64 * 1024 * 1024, gt=0, description="Sampling ends with the object that reaches this size in all."
    )
    schema_evolution: Literal["none", "rescue", "fail", "add_new_columns"] = Field(
        "none",
        description="What to do about columns that the schema lacks. none: left out. rescue: into _rescued_data. "
        "add_new_columns: remember the wider schema and stop; the next start has it, and volley run restarts itself.",
    )

    clean_source: Literal["off", "delete", "archive"] = Field(
        "off",
        description="What to do with objects that were read to the end, once their epoch is committed. Those that were "
        "overwritten since, or of which records were dropped, stay. Only for streams with a state_location.",
    )
    clean_source_retention: Seconds = Field(
        7 * 24 * 3600.0,
        description="How long after they were read objects are left alone by clean_source: as long, a mistake can be "
        "mended by reading them again, and a checkpoint restored from a backup finds them.",
    )
    archive_path: str | None = Field(
        None,
        min_length=1,
        description="Where clean_source = archive moves objects to, outside of the source. They keep their path below "
        "it; with allow_overwrites their name also tells the version.",
    )

    reprocess_state_location: str | None = Field(
        None,
        min_length=1,
        description="Read again what another query has read, and nothing else: its state_location. For a query with a "
        "state_location, checkpoint and sink of its own; see: volley reprocess.",
    )
    reprocess_from: str | None = Field(
        None,
        description="The first of its epochs: a number, as volley files shows it, or when it was planned: "
        "'2024-05-01 12:00' (UTC), '2 days' ago.",
    )
    reprocess_to: str | None = Field(None, description="The last of its epochs, said likewise.")

    def detached(self) -> Self:
        return super().detached().with_clean_source("off")

    @field_validator("archive_path")
    @classmethod
    def _is_a_folder(cls, path: str | None) -> str | None:
        return None if path is None else path.rstrip("/") or "/"

    @field_validator("reprocess_from", "reprocess_to", mode="before")
    @classmethod
    def _is_epoch_or_moment(cls, bound: Any) -> str | None:
        # YAML reads a number, or a date, as such.
        text = None if bound is None else str(bound).strip()
        if text is not None and not text.isdigit():
            parse_moment(text)
        return text

    @field_validator("ignored", "regex")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
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

    @model_validator(mode="after")
    def _a_queue_is_named_if_used(self) -> Self:
        option = self.QUEUE_OPTION
        if option is not None and self.discovery in ("notifications", "both") and getattr(self, option) is None:
            raise ValueError(f"discovery = {self.discovery} needs the option {option!r}")
        return self

    @model_validator(mode="after")
    def _dead_letters_have_a_place(self) -> Self:
        wanted = [name for name in ("on_bad_record", "on_corrupt_file") if getattr(self, name) == "dead_letter"]
        if wanted and self.dead_letter_path is None:
            raise ValueError(f"{wanted[0]} = dead_letter needs the option 'dead_letter_path': where to put them")
        if self.dead_letter_path is not None and not wanted:
            raise ValueError(
                "option 'dead_letter_path' is used with on_bad_record or on_corrupt_file = dead_letter only; "
                "set one of them, or leave it out"
            )
        return self

    @model_validator(mode="after")
    def _cleaning_is_possible(self) -> Self:
        if self.clean_source == "archive" and self.archive_path is None:
            raise ValueError("clean_source = archive needs the option 'archive_path': where to move objects to")
        known_for = max(self.manifest_retention, self.max_file_age)
        if self.clean_source != "off" and self.clean_source_retention > known_for:
            raise ValueError(
                "'clean_source_retention' is longer than it is known which objects were read; set "
                "'manifest_retention' to more than that"
            )
        return self

    @model_validator(mode="after")
    def _reprocessing_makes_sense(self) -> Self:
        old = self.reprocess_state_location
        if old is None:
            if self.reprocess_from is not None or self.reprocess_to is not None:
                raise ValueError("'reprocess_from' and 'reprocess_to' need 'reprocess_state_location': of which query")
            return self
        if self.clean_source != "off":
            raise ValueError(
                "clean_source does not go with 'reprocess_state_location': objects are taken away by the query that "
                "reads new ones; set clean_source to 'off'"
            )
        if self.state_location is not None and StateStore(old).is_same_place(StateStore(self.state_location)):
            raise ValueError(
                f"'reprocess_state_location' and 'state_location' are the same place, {old!r}: read again by the same "
                "query, rows would be doubled; make it a query with a state_location, checkpoint and sink of its own"
            )
        return self
