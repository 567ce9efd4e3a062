"""The contract of `Decoder` as tests."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from volley_core.config import ConnectorConfig
from volley_core.conformance import identity
from volley_core.conformance.nasty import NASTY
from volley_core.conformance.rows import in_order, sample
from volley_core.errors import DecodeError
from volley_core.protocols import Decoder

MakeDecoder = Callable[[], Any]


class DecoderSuite:
    """Give a fixture `make_decoder` and `encode`."""

    many_rows: ClassVar[int] = 200_000
    """Rows that are too many for one batch."""
    streams: ClassVar[bool] = True
    """Whether the format permits to decode a file without holding all of it."""
    garbage: ClassVar[bytes] = b"\x00\xff\xfe{[<garbage \x80\x81" * 50
    """Bytes that are not in the format."""
    refuses: ClassVar[dict[str, str]] = {}
    """Names of nasty tables that the format cannot express, with the reason."""

    def encode(self, table: pa.Table) -> bytes:
        """A file in the format with these rows, written by something other than the decoder's own package."""
        raise NotImplementedError("a suite's class says how a file is made")

    def decode(self, decoder: Any, data: bytes, schema: pa.Schema) -> list[pa.RecordBatch]:
        return list(decoder.decode(io.BytesIO(data), schema))

    def test_has_the_methods_of_a_decoder(self, make_decoder: MakeDecoder) -> None:
        assert isinstance(make_decoder(), Decoder)

    def test_is_made_from_its_config(self, make_decoder: MakeDecoder) -> None:
        identity.assert_config_class(make_decoder, ConnectorConfig)

    def test_a_pickled_copy_decodes(self, make_decoder: MakeDecoder) -> None:
        """Constructors hold the config and nothing else."""
        table = sample(0, 3)
        copy = identity.assert_picklable(make_decoder)
        assert in_order(self.decode(copy, self.encode(table), table.schema)) == in_order(table)

    def test_the_inferred_schema_decodes_the_file(self, make_decoder: MakeDecoder) -> None:
        """A schema that this file can be decoded with."""
        table = sample(0, 50)
        decoder = make_decoder()
        schema = decoder.infer_schema(io.BytesIO(self.encode(table)))
        assert schema.names == table.schema.names
        assert in_order(self.decode(decoder, self.encode(table), schema)) == in_order(table)

    def test_infer_schema_refuses_garbage(self, make_decoder: MakeDecoder) -> None:
        """Raises DecodeError if the bytes are not in the format."""
        with pytest.raises(DecodeError):
            make_decoder().infer_schema(io.BytesIO(self.garbage))

    def test_decode_refuses_garbage(self, make_decoder: MakeDecoder) -> None:
        """Raises DecodeError if the bytes are not in the format."""
        with pytest.raises(DecodeError):
            self.decode(make_decoder(), self.garbage, sample(0, 1).schema)

    def test_rows_come_in_order(self, make_decoder: MakeDecoder) -> None:
        """The file's rows in order."""
        table = sample(0, 5000)
        assert in_order(self.decode(make_decoder(), self.encode(table), table.schema)) == in_order(table)

    @pytest.mark.parametrize("nullable", [True, False], ids=["nullable", "not null"])
    def test_batches_have_exactly_the_schema(self, make_decoder: MakeDecoder, nullable: bool) -> None:
        """In batches of exactly `schema`: types, order and nullability."""
        schema = pa.schema([pa.field("name", pa.string()), pa.field("id", pa.int32(), nullable)])
        batches = self.decode(make_decoder(), self.encode(sample(0, 20)), schema)
        assert batches, "nothing was decoded"
        assert all(batch.schema.equals(schema) for batch in batches)
        assert in_order(batches) == in_order(sample(0, 20).select(["name", "id"]))

    def test_batches_are_bounded(self, make_decoder: MakeDecoder) -> None:
        """In batches: a large file does not come as one."""
        table = sample(0, self.many_rows)
        batches = self.decode(make_decoder(), self.encode(table), table.schema)
        assert sum(batch.num_rows for batch in batches) == self.many_rows
        assert max(batch.num_rows for batch in batches) < self.many_rows
        assert pa.Table.from_batches(batches).column("id").equals(table.column("id"))

    def test_the_first_batch_comes_before_the_file_is_read_whole(self, make_decoder: MakeDecoder) -> None:
        """Never holding the whole file if the format permits."""
        table = sample(0, self.many_rows)
        file = CountingFile(self.encode(table))
        batches = iter(make_decoder().decode(file, table.schema))
        assert next(batches).num_rows > 0
        assert not self.streams or file.bytes_read < file.size, "the whole file was read before the first batch"
        assert sum(batch.num_rows for batch in batches) > 0

    def test_a_column_that_the_file_lacks_is_null(self, make_decoder: MakeDecoder) -> None:
        """A column that the file lacks is null."""
        schema = sample(0, 1).schema.append(pa.field("missing", pa.float64()))
        table = pa.Table.from_batches(self.decode(make_decoder(), self.encode(sample(0, 5)), schema), schema)
        assert table.column("missing").to_pylist() == [None] * 5
        assert table.column("id").to_pylist() == list(range(5))

    def test_a_column_that_the_schema_lacks_is_left_out(self, make_decoder: MakeDecoder) -> None:
        """One that the schema lacks is left out."""
        schema = pa.schema([("name", pa.string())])
        batches = self.decode(make_decoder(), self.encode(sample(0, 5)), schema)
        assert in_order(batches) == in_order(sample(0, 5).select(["name"]))

    def test_values_that_do_not_fit_the_schema_are_refused(self, make_decoder: MakeDecoder) -> None:
        """Raises DecodeError if the bytes do not fit the schema."""
        with pytest.raises(DecodeError):
            self.decode(make_decoder(), self.encode(sample(0, 5)), pa.schema([("name", pa.int64())]))

    def test_numbers_too_large_for_the_schema_are_refused(self, make_decoder: MakeDecoder) -> None:
        """Raises DecodeError if the bytes do not fit the schema: a value is never cut."""
        table = pa.table({"id": pa.array([1, 2**40], pa.int64())})
        with pytest.raises(DecodeError):
            self.decode(make_decoder(), self.encode(table), pa.schema([("id", pa.int32())]))

    def test_a_file_without_rows_gives_no_rows(self, make_decoder: MakeDecoder) -> None:
        """A file without rows gives no rows, not an error."""
        table = sample(0, 0)
        assert in_order(self.decode(make_decoder(), self.encode(table), table.schema)) == []

    def test_a_file_without_bytes_gives_no_rows_or_is_not_in_the_format(self, make_decoder: MakeDecoder) -> None:
        """A file without rows gives no rows; where the format has no empty file, it is not in the format."""
        try:
            assert in_order(self.decode(make_decoder(), b"", sample(0, 1).schema)) == []
        except DecodeError:
            return

    @pytest.mark.parametrize("name", NASTY)
    def test_nasty_data_comes_through(self, make_decoder: MakeDecoder, name: str) -> None:
        if name in self.refuses:
            pytest.xfail(self.refuses[name])
        table = NASTY[name]
        batches = self.decode(make_decoder(), self.encode(table), table.schema)
        assert in_order(batches) == in_order(table)
        assert all(batch.schema.equals(table.schema) for batch in batches)


class CountingFile(io.BytesIO):
    """Counts the bytes that were read from it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.size = len(data)
        self.bytes_read = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.bytes_read += len(data)
        return data

    def read1(self, size: int | None = -1, /) -> bytes:
        data = super().read1(size)
        self.bytes_read += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        count = super().readinto(buffer)
        self.bytes_read += count
        return count
