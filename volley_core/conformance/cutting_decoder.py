"""The contract of `CuttingDecoder` as tests."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from volley_core.conformance.decoder import CountingFile
from volley_core.conformance.rows import in_order, sample
from volley_core.errors import DecodeError
from volley_core.protocols import CuttingDecoder, Decoder, TolerantDecoder

MakeDecoder = Callable[[], Any]

_PARTS = 5
_LARGEST_PIECE_BYTES = 1000


class CuttingDecoderSuite:
    """Give a fixture `make_decoder` and `encode`, as for `DecoderSuite`."""

    many_rows: ClassVar[int] = 200_000
    """Rows that are enough to be cut into several pieces."""

    def encode(self, table: pa.Table) -> bytes:
        """A file in the format with these rows, written by something other than the decoder's own package."""
        raise NotImplementedError("a suite's class says how a file is made")

    def table(self, count: int) -> pa.Table:
        """Rows of which no two are equal."""
        return sample(0, count)

    def cut(self, decoder: Any, data: bytes, target_bytes: int) -> list[Any]:
        return list(decoder.cut(io.BytesIO(data), target_bytes))

    def rows_of(self, decoder: Any, data: bytes, schema: pa.Schema) -> list[str]:
        return in_order(decoder.decode(io.BytesIO(data), schema))

    def test_has_the_methods_of_a_cutting_decoder(self, make_decoder: MakeDecoder) -> None:
        assert isinstance(make_decoder(), CuttingDecoder)

    @pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.34, 0.5, 0.9, 1.1])
    def test_the_rows_of_all_pieces_are_the_rows_of_the_object(self, make_decoder: MakeDecoder, share: float) -> None:
        """The object's pieces in order: the rows of all pieces in order are the object's rows."""
        table = self.table(3000)
        data, decoder = self.encode(table), make_decoder()
        pieces = self.cut(decoder, data, max(1, int(len(data) * share)))
        found = [row for piece in pieces for row in self.rows_of(decoder.within(piece), data, table.schema)]
        assert found == in_order(table)

    def test_pieces_are_about_as_large_as_was_asked_for(self, make_decoder: MakeDecoder) -> None:
        """Each about `target_bytes`."""
        table = self.table(self.many_rows)
        data, decoder = self.encode(table), make_decoder()
        pieces = self.cut(decoder, data, len(data) // _PARTS)
        assert _PARTS // 2 <= len(pieces) <= 2 * _PARTS
        rows = [len(self.rows_of(decoder.within(piece), data, table.schema)) for piece in pieces]
        assert max(rows) <= 2 * self.many_rows // _PARTS

    def test_a_small_object_is_one_piece(self, make_decoder: MakeDecoder) -> None:
        """One piece if it cannot be cut."""
        data = self.encode(self.table(3))
        assert len(self.cut(make_decoder(), data, 10 * len(data))) == 1

    def test_an_object_without_bytes_is_one_piece_or_not_in_the_format(self, make_decoder: MakeDecoder) -> None:
        """One piece if it cannot be cut; where the format has no empty file, it is not in the format."""
        try:
            assert len(self.cut(make_decoder(), b"", 1000)) == 1
        except DecodeError:
            return

    def test_an_object_without_rows_has_pieces_without_rows(self, make_decoder: MakeDecoder) -> None:
        """The rows of all pieces are the object's rows: none, and no error."""
        table = self.table(3).slice(0, 0)
        data, decoder = self.encode(table), make_decoder()
        for piece in self.cut(decoder, data, 1000):
            assert self.rows_of(decoder.within(piece), data, table.schema) == []

    def test_cutting_reads_little(self, make_decoder: MakeDecoder) -> None:
        """Reads little of it."""
        data = self.encode(self.table(self.many_rows))
        file = CountingFile(data)
        make_decoder().cut(file, len(data) // _PARTS)
        assert file.bytes_read < file.size / 4

    def test_a_piece_is_read_without_the_others(self, make_decoder: MakeDecoder) -> None:
        """This decoder for one piece of the object alone."""
        table = self.table(self.many_rows)
        data, decoder = self.encode(table), make_decoder()
        pieces = self.cut(decoder, data, len(data) // _PARTS)
        file = CountingFile(data)
        assert sum(batch.num_rows for batch in decoder.within(pieces[1]).decode(file, table.schema))
        assert file.bytes_read < file.size * 0.75, "most of the object was read for one piece of it"

    def test_the_same_bytes_are_cut_alike(self, make_decoder: MakeDecoder) -> None:
        """The same pieces for the same bytes."""
        data = self.encode(self.table(3000))
        assert self.cut(make_decoder(), data, len(data) // 3) == self.cut(make_decoder(), data, len(data) // 3)

    def test_pieces_are_small_and_picklable(self, make_decoder: MakeDecoder) -> None:
        """Names a part of one object, small and picklable."""
        table = self.table(3000)
        data, decoder = self.encode(table), make_decoder()
        for piece in self.cut(decoder, data, len(data) // 3):
            pickled = pickle.dumps(piece)
            assert len(pickled) <= _LARGEST_PIECE_BYTES
            copy = make_decoder().within(pickle.loads(pickled))
            assert self.rows_of(copy, data, table.schema) == self.rows_of(decoder.within(piece), data, table.schema)

    def test_within_gives_this_decoder_for_a_piece(self, make_decoder: MakeDecoder) -> None:
        """This decoder for one piece: it tolerates what this one tolerates, and this one is as it was."""
        table = self.table(3000)
        data, decoder = self.encode(table), make_decoder()
        within = decoder.within(self.cut(decoder, data, len(data) // 3)[0])
        assert isinstance(within, Decoder)
        assert isinstance(within, TolerantDecoder) == isinstance(decoder, TolerantDecoder)
        assert self.rows_of(decoder, data, table.schema) == in_order(table)
