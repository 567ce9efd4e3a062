"""The contract of `TolerantDecoder` and `BadRecords` as tests."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from volley_core.bad_records import CORRUPT_RECORD, BadRecord, BadRecords
from volley_core.conformance.rows import in_order, sample
from volley_core.errors import DecodeError
from volley_core.protocols import TolerantDecoder

MakeDecoder = Callable[[], Any]

ROWS = 20_000
BAD_ROWS = (0, 1, 777, 9_999, 10_000, 19_999)
"""Those whose id is too large for the schema that is asked for, counted from 0."""
TOO_LARGE = 2**40
EXTRAS = "extras"
ASKED = pa.schema([("id", pa.int32()), ("name", pa.string())])
ASKED_WITH_EXTRAS = ASKED.append(pa.field(EXTRAS, pa.string()))


def _with_bad_rows() -> pa.Table:
    ids = [TOO_LARGE + i if i in BAD_ROWS else i for i in range(ROWS)]
    return sample(0, ROWS).set_column(0, "id", pa.array(ids, pa.int64()))


class TolerantDecoderSuite:
    """Give a fixture `make_decoder` and `encode`, as for `DecoderSuite`."""

    not_in_the_format: ClassVar[bytes] = b"\x00\xff\xfe{[<garbage \x80\x81" * 50
    """Bytes of which not even bad records can be made."""
    broken_record: ClassVar[bytes | None] = None
    """A record that cannot be read, to stand behind others; None where the format tells records apart only by reading
    them, so that a broken one breaks the object."""

    def encode(self, table: pa.Table) -> bytes:
        """A file in the format with these rows, written by something other than the decoder's own package."""
        raise NotImplementedError("a suite's class says how a file is made")

    def decode_tolerantly(
        self, decoder: Any, data: bytes, schema: pa.Schema = ASKED, extras: str | None = None, rescue: bool = False
    ) -> tuple[list[pa.RecordBatch], list[BadRecord]]:
        found: list[BadRecord] = []
        bad = BadRecords(found.append, extras, rescue)
        return list(decoder.decode_tolerantly(io.BytesIO(data), schema, bad)), found

    def test_has_the_methods_of_a_tolerant_decoder(self, make_decoder: MakeDecoder) -> None:
        assert isinstance(make_decoder(), TolerantDecoder)

    def test_without_bad_records_it_is_like_decode(self, make_decoder: MakeDecoder) -> None:
        """Like `decode`."""
        data = self.encode(sample(0, 5000))
        batches, found = self.decode_tolerantly(make_decoder(), data)
        assert (
            in_order(batches) == in_order(make_decoder().decode(io.BytesIO(data), ASKED)) == in_order(sample(0, 5000))
        )
        assert not found

    def test_each_record_that_does_not_fit_is_told_and_the_others_come_out(self, make_decoder: MakeDecoder) -> None:
        """Each record that cannot be read or does not fit goes to `bad.add`; the others come out."""
        batches, found = self.decode_tolerantly(make_decoder(), self.encode(_with_bad_rows()))
        others = [i for i in range(ROWS) if i not in BAD_ROWS]
        assert pa.Table.from_batches(batches, ASKED).column("id").to_pylist() == others
        assert len(found) == len(BAD_ROWS)

    def test_bad_records_are_told_in_order_by_their_number(self, make_decoder: MakeDecoder) -> None:
        """Told of every bad record, in order; counted from 1 through the object, bad records included."""
        _, found = self.decode_tolerantly(make_decoder(), self.encode(_with_bad_rows()))
        assert [record.row for record in found] == [row + 1 for row in BAD_ROWS]

    def test_a_bad_record_says_what_it_is_and_why(self, make_decoder: MakeDecoder) -> None:
        """The record as it stands in the object; of a binary format, the values that could be read."""
        _, found = self.decode_tolerantly(make_decoder(), self.encode(_with_bad_rows()))
        for row, record in zip(BAD_ROWS, found, strict=True):
            assert str(TOO_LARGE + row).encode() in record.raw
            assert f"name {row}".encode() in record.raw
            assert "id" in record.error

    def test_tolerant_batches_have_exactly_the_schema(self, make_decoder: MakeDecoder) -> None:
        """Like `decode`: in batches of exactly `schema`."""
        for rescue in (False, True):
            batches, _ = self.decode_tolerantly(
                make_decoder(), self.encode(_with_bad_rows()), ASKED_WITH_EXTRAS, EXTRAS, rescue
            )
            assert batches
            assert all(batch.schema.equals(ASKED_WITH_EXTRAS) for batch in batches)

    def test_an_error_of_the_one_who_is_told_ends_the_decoding(self, make_decoder: MakeDecoder) -> None:
        """May raise, which ends the decoding."""

        def add(record: BadRecord) -> None:
            raise DecodeError(f"enough of row {record.row}")

        with pytest.raises(DecodeError, match="enough of row 1$"):
            list(make_decoder().decode_tolerantly(io.BytesIO(self.encode(_with_bad_rows())), ASKED, BadRecords(add)))

    def test_bytes_that_are_not_in_the_format_are_refused(self, make_decoder: MakeDecoder) -> None:
        """Bytes that are not in the format at all still raise DecodeError."""
        with pytest.raises(DecodeError):
            self.decode_tolerantly(make_decoder(), self.not_in_the_format)

    def test_a_null_that_is_not_allowed_is_a_bad_record(self, make_decoder: MakeDecoder) -> None:
        """Each record that does not fit: not to be null is part of the schema."""
        table = sample(0, 3).set_column(0, "id", pa.array([0, None, 2], pa.int64()))
        schema = pa.schema([pa.field("id", pa.int32(), False), ("name", pa.string())])
        batches, found = self.decode_tolerantly(make_decoder(), self.encode(table), schema)
        assert [row for batch in batches for row in batch.column("id").to_pylist()] == [0, 2]
        assert [record.row for record in found] == [2]

    def test_the_column_of_extras_takes_what_the_schema_lacks(self, make_decoder: MakeDecoder) -> None:
        """As one JSON object per row, what the record holds but the schema lacks."""
        schema = pa.schema([(EXTRAS, pa.string()), ("id", pa.int64())])
        batches, found = self.decode_tolerantly(make_decoder(), self.encode(sample(0, 3)), schema, EXTRAS)
        table = pa.Table.from_batches(batches, schema)
        assert table.column("id").to_pylist() == [0, 1, 2]
        assert [json.loads(text) for text in table.column(EXTRAS).to_pylist()] == [
            {"name": f"name {i}"} for i in range(3)
        ]
        assert not found

    def test_the_column_of_extras_is_null_where_there_is_nothing(self, make_decoder: MakeDecoder) -> None:
        """Null where there is nothing."""
        batches, _ = self.decode_tolerantly(make_decoder(), self.encode(sample(0, 3)), ASKED_WITH_EXTRAS, EXTRAS)
        assert pa.Table.from_batches(batches, ASKED_WITH_EXTRAS).column(EXTRAS).to_pylist() == [None] * 3

    def test_a_rescued_record_is_a_row_with_its_misfits_among_the_extras(self, make_decoder: MakeDecoder) -> None:
        """A bad record becomes a row as well: values that do not fit are null, and stand in the column of extras."""
        batches, found = self.decode_tolerantly(
            make_decoder(), self.encode(_with_bad_rows()), ASKED_WITH_EXTRAS, EXTRAS, rescue=True
        )
        rows = pa.Table.from_batches(batches, ASKED_WITH_EXTRAS).to_pylist()
        assert [record.row for record in found] == [row + 1 for row in BAD_ROWS]
        assert [row["name"] for row in rows] == [f"name {i}" for i in range(ROWS)]
        assert [row["id"] for row in rows] == [None if i in BAD_ROWS else i for i in range(ROWS)]
        for number, row in enumerate(rows):
            if number in BAD_ROWS:
                assert str(json.loads(row[EXTRAS])["id"]) == str(TOO_LARGE + number)
            else:
                assert row[EXTRAS] is None

    def test_a_record_that_cannot_be_read_is_told(self, make_decoder: MakeDecoder) -> None:
        """Each record that cannot be read goes to `bad.add`; the others come out."""
        if self.broken_record is None:
            return
        batches, found = self.decode_tolerantly(make_decoder(), self.encode(sample(0, 3)) + self.broken_record)
        assert [row for batch in batches for row in batch.column("id").to_pylist()] == [0, 1, 2]
        assert [(record.row, record.raw) for record in found] == [(4, self.broken_record.strip())]

    def test_a_rescued_record_that_cannot_be_read_is_a_row_of_nulls(self, make_decoder: MakeDecoder) -> None:
        """A row of nulls, with its text under `_corrupt_record` in the column of extras."""
        if self.broken_record is None:
            return
        data = self.encode(sample(0, 3)) + self.broken_record
        batches, _ = self.decode_tolerantly(make_decoder(), data, ASKED_WITH_EXTRAS, EXTRAS, rescue=True)
        *_, last = pa.Table.from_batches(batches, ASKED_WITH_EXTRAS).to_pylist()
        assert (last["id"], last["name"]) == (None, None)
        assert json.loads(last[EXTRAS]) == {CORRUPT_RECORD: self.broken_record.strip().decode()}
