"""The suites for tolerant and cutting decoders catch decoders that break a sentence of the contract.

Each defect is put into the JSON decoder, which keeps the whole contract (tests/connectors/test_decoder_conformance.py).
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from volley_connectors.decoders.json_lines import JsonLinesDecoder, JsonLinesDecoderConfig
from volley_core import BadRecord, BadRecords, DecodeError
from volley_core.conformance import CuttingDecoderSuite, TolerantDecoderSuite


class JsonSuite(TolerantDecoderSuite, CuttingDecoderSuite):
    not_in_the_format = b"\x1f\x8b\x08 no gzip"
    broken_record = b'{"id": 7, "name\n'

    def encode(self, table: pa.Table) -> bytes:
        return "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()


class Tolerant(JsonLinesDecoder):
    """Lets a defect change what is told, and what comes out."""

    def told(self, record: BadRecord) -> BadRecord:
        return record

    def given(self, batch: pa.RecordBatch, bad: BadRecords) -> pa.RecordBatch:
        return batch

    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        changed = replace(bad, add=lambda record: bad.add(self.told(record)))
        for batch in super().decode_tolerantly(file, schema, changed):
            yield self.given(batch, bad)


class NotTolerant:
    def __init__(self, config: JsonLinesDecoderConfig) -> None:
        self._decoder = JsonLinesDecoder(config)

    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        return self._decoder.decode(file, schema)


class LosesTheLastRow(Tolerant):
    def given(self, batch: pa.RecordBatch, bad: BadRecords) -> pa.RecordBatch:
        return batch.slice(0, batch.num_rows - 1)


class StopsAtABadRecord(Tolerant):
    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        def stop(record: BadRecord) -> None:
            bad.add(record)
            raise EOFError

        try:
            yield from super().decode_tolerantly(file, schema, replace(bad, add=stop))
        except EOFError:
            return


class TellsNothing(Tolerant):
    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        return super().decode_tolerantly(file, schema, replace(bad, add=lambda record: None))


class TellsBackwards(Tolerant):
    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        found: list[BadRecord] = []
        yield from super().decode_tolerantly(file, schema, replace(bad, add=found.append))
        for record in reversed(found):
            bad.add(record)


class CountsFromZero(Tolerant):
    def told(self, record: BadRecord) -> BadRecord:
        return replace(record, row=record.row - 1)


class KeepsNoBytes(Tolerant):
    def told(self, record: BadRecord) -> BadRecord:
        return replace(record, raw=b"")


class SaysNoReason(Tolerant):
    def told(self, record: BadRecord) -> BadRecord:
        return replace(record, error="")


class SwallowsTheEnd(Tolerant):
    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        def add(record: BadRecord) -> None:
            try:
                bad.add(record)
            except DecodeError:
                return

        return super().decode_tolerantly(file, schema, replace(bad, add=add))


class CallsAnythingABadRecord(Tolerant):
    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        try:
            yield from super().decode_tolerantly(file, schema, bad)
        except DecodeError as error:
            bad.add(BadRecord(b"", str(error), 1))


class LetsNullsThrough(Tolerant):
    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        for batch in super().decode_tolerantly(file, nullable, bad):
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)


class OwnSchema(Tolerant):
    def given(self, batch: pa.RecordBatch, bad: BadRecords) -> pa.RecordBatch:
        return batch.select(batch.schema.names[::-1])


class HasNoExtras(Tolerant):
    def given(self, batch: pa.RecordBatch, bad: BadRecords) -> pa.RecordBatch:
        return _with_extras(batch, bad, lambda text: None)


class HasExtrasForNothing(Tolerant):
    def given(self, batch: pa.RecordBatch, bad: BadRecords) -> pa.RecordBatch:
        return _with_extras(batch, bad, lambda text: text or "{}")


class RescuesNothing(Tolerant):
    def decode_tolerantly(self, file: BinaryIO, schema: pa.Schema, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        return super().decode_tolerantly(file, schema, replace(bad, rescue=False))


class HidesTheText(Tolerant):
    def given(self, batch: pa.RecordBatch, bad: BadRecords) -> pa.RecordBatch:
        return _with_extras(batch, bad, lambda text: text and text.replace("_corrupt_record", "text"))


def _with_extras(batch: pa.RecordBatch, bad: BadRecords, change: Any) -> pa.RecordBatch:
    if bad.extras is None:
        return batch
    index = batch.schema.get_field_index(bad.extras)
    texts = [change(text) for text in batch.column(index).to_pylist()]
    return batch.set_column(index, batch.schema.field(index), pa.array(texts, pa.string()))


TOLD = "test_each_record_that_does_not_fit_is_told_and_the_others_come_out"
UNREADABLE = "test_a_record_that_cannot_be_read_is_told"
RESCUED = "test_a_rescued_record_is_a_row_with_its_misfits_among_the_extras"
RESCUED_TEXT = "test_a_rescued_record_that_cannot_be_read_is_a_row_of_nulls"
TOLERANT_DEFECTS: list[tuple[type, str, type[BaseException]]] = [
    (NotTolerant, "test_has_the_methods_of_a_tolerant_decoder", AssertionError),
    (LosesTheLastRow, "test_without_bad_records_it_is_like_decode", AssertionError),
    (LosesTheLastRow, TOLD, AssertionError),
    (StopsAtABadRecord, TOLD, AssertionError),
    (TellsNothing, TOLD, AssertionError),
    (TellsNothing, UNREADABLE, AssertionError),
    (TellsBackwards, "test_bad_records_are_told_in_order_by_their_number", AssertionError),
    (CountsFromZero, "test_bad_records_are_told_in_order_by_their_number", AssertionError),
    (KeepsNoBytes, "test_a_bad_record_says_what_it_is_and_why", AssertionError),
    (SaysNoReason, "test_a_bad_record_says_what_it_is_and_why", AssertionError),
    (OwnSchema, "test_tolerant_batches_have_exactly_the_schema", AssertionError),
    (SwallowsTheEnd, "test_an_error_of_the_one_who_is_told_ends_the_decoding", pytest.fail.Exception),
    (CallsAnythingABadRecord, "test_bytes_that_are_not_in_the_format_are_refused", pytest.fail.Exception),
    (LetsNullsThrough, "test_a_null_that_is_not_allowed_is_a_bad_record", AssertionError),
    (HasNoExtras, "test_the_column_of_extras_takes_what_the_schema_lacks", Exception),
    (HasExtrasForNothing, "test_the_column_of_extras_is_null_where_there_is_nothing", AssertionError),
    (RescuesNothing, RESCUED, AssertionError),
    (HasNoExtras, RESCUED, Exception),
    (RescuesNothing, RESCUED_TEXT, AssertionError),
    (HidesTheText, RESCUED_TEXT, AssertionError),
]


@pytest.mark.parametrize(("broken", "test", "error"), TOLERANT_DEFECTS)
def test_the_tolerant_decoder_suite_catches(broken: Any, test: str, error: type[BaseException]) -> None:
    with pytest.raises(error):
        getattr(JsonSuite(), test)(lambda: broken(JsonLinesDecoderConfig()))


class NeverCuts(JsonLinesDecoder):
    def cut(self, file: BinaryIO, target_bytes: int) -> list[Any]:
        return [(0, file.seek(0, 2))]


class AlwaysCuts(JsonLinesDecoder):
    def cut(self, file: BinaryIO, target_bytes: int) -> list[Any]:
        return list(super().cut(file, max(1, file.seek(0, 2) // 3)))


class CutsBackwards(JsonLinesDecoder):
    def cut(self, file: BinaryIO, target_bytes: int) -> list[Any]:
        return list(super().cut(file, target_bytes))[::-1]


class CutsThroughRecords(JsonLinesDecoder):
    def within(self, piece: Any) -> JsonLinesDecoder:
        return super().within((piece[0] + 1, piece[1]))


class ReadsRecordsTwice(JsonLinesDecoder):
    def within(self, piece: Any) -> JsonLinesDecoder:
        return super().within((piece[0], piece[1] + 50))


class RefusesTheEmpty(JsonLinesDecoder):
    def cut(self, file: BinaryIO, target_bytes: int) -> list[Any]:
        if not file.seek(0, 2):
            raise ValueError("nothing to cut")
        return list(super().cut(file, target_bytes))


class SeesRowsWhereNoneAre(JsonLinesDecoder):
    def within(self, piece: Any) -> JsonLinesDecoder:
        return OneRow(self._config)


class OneRow(JsonLinesDecoder):
    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{}], schema=schema)


class ReadsAllToCut(JsonLinesDecoder):
    def cut(self, file: BinaryIO, target_bytes: int) -> list[Any]:
        return list(super().cut(io.BytesIO(file.read()), target_bytes))


class ReadsAllForAPiece(JsonLinesDecoder):
    def decode(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return super().decode(io.BytesIO(file.read()), schema)

    def within(self, piece: Any) -> JsonLinesDecoder:
        return ReadsAllForAPiece(self._config, piece)


class CutsAtRandom(JsonLinesDecoder):
    def cut(self, file: BinaryIO, target_bytes: int) -> list[Any]:
        size = file.seek(0, 2)
        middle = random.randrange(size)
        return [(0, middle), (middle, size)]


class PutsTheRowsIntoThePiece(JsonLinesDecoder):
    def cut(self, file: BinaryIO, target_bytes: int) -> list[Any]:
        return [(*piece, b"x" * 10_000) for piece in super().cut(file, target_bytes)]


class GivesAPieceThatCannotTravel(JsonLinesDecoder):
    def cut(self, file: BinaryIO, target_bytes: int) -> list[Any]:
        return [(*piece, lambda: None) for piece in super().cut(file, target_bytes)]


class NarrowsItself(JsonLinesDecoder):
    def within(self, piece: Any) -> JsonLinesDecoder:
        self._bounds = piece
        return self


class ForgetsToTolerate(JsonLinesDecoder):
    def within(self, piece: Any) -> Any:
        inner = super().within(piece)

        class Intolerant:
            infer_schema = inner.infer_schema
            decode = inner.decode

        return Intolerant()


ALL_ROWS = "test_the_rows_of_all_pieces_are_the_rows_of_the_object"
CUTTING_DEFECTS: list[tuple[type, str, dict[str, Any], type[BaseException]]] = [
    (NotTolerant, "test_has_the_methods_of_a_cutting_decoder", {}, AssertionError),
    (CutsBackwards, ALL_ROWS, {"share": 0.1}, AssertionError),
    (CutsThroughRecords, ALL_ROWS, {"share": 0.1}, AssertionError),
    (ReadsRecordsTwice, ALL_ROWS, {"share": 0.1}, AssertionError),
    (NeverCuts, "test_pieces_are_about_as_large_as_was_asked_for", {}, AssertionError),
    (AlwaysCuts, "test_a_small_object_is_one_piece", {}, AssertionError),
    (RefusesTheEmpty, "test_an_object_without_bytes_is_one_piece_or_not_in_the_format", {}, ValueError),
    (SeesRowsWhereNoneAre, "test_an_object_without_rows_has_pieces_without_rows", {}, AssertionError),
    (ReadsAllToCut, "test_cutting_reads_little", {}, AssertionError),
    (ReadsAllForAPiece, "test_a_piece_is_read_without_the_others", {}, AssertionError),
    (CutsAtRandom, "test_the_same_bytes_are_cut_alike", {}, AssertionError),
    (PutsTheRowsIntoThePiece, "test_pieces_are_small_and_picklable", {}, AssertionError),
    (GivesAPieceThatCannotTravel, "test_pieces_are_small_and_picklable", {}, Exception),
    (NarrowsItself, "test_within_gives_this_decoder_for_a_piece", {}, AssertionError),
    (ForgetsToTolerate, "test_within_gives_this_decoder_for_a_piece", {}, AssertionError),
]


@pytest.mark.parametrize(("broken", "test", "arguments", "error"), CUTTING_DEFECTS)
def test_the_cutting_decoder_suite_catches(
    broken: Any, test: str, arguments: dict[str, Any], error: type[BaseException]
) -> None:
    with pytest.raises(error):
        getattr(JsonSuite(), test)(lambda: broken(JsonLinesDecoderConfig()), **arguments)
