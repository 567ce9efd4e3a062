"""The contract of `BlobRemover` as tests."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from volley_core.blobs import BlobRef
from volley_core.conformance.blob_reader import MakeReader
from volley_core.errors import BlobNotFoundError
from volley_core.protocols import BlobRemover


class BlobRemoverSuite:
    """A suite beside `BlobReaderSuite`, whose fixture and methods it uses: inherit both."""

    put: Any
    remove: Any
    uri: Any
    stored: Any

    def bytes_at(self, reader: Any, name: str) -> bytes | None:
        """What stands under a name now; None if nothing does."""
        try:
            with reader.open(reader.stat(BlobRef(self.uri(name)))) as file:
                data: bytes = file.read()
        except BlobNotFoundError:
            return None
        return data

    def overwritten(self, reader: Any, data: bytes) -> BlobRef:
        """A reference to what was there before these bytes."""
        ref: BlobRef = self.stored(reader, "in/a.json", b"first")
        # So that a store that tells versions by time can tell these two.
        time.sleep(0.05)
        self.put("in/a.json", data)
        return ref

    def test_has_the_methods_of_a_blob_remover(self, make_reader: MakeReader) -> None:
        assert isinstance(make_reader(), BlobRemover)

    def test_delete_deletes_this_object_and_no_other(self, make_reader: MakeReader) -> None:
        """Delete the object. True if it is gone now."""
        reader = make_reader()
        ref = self.stored(reader, "in/a.json", b"a")
        self.put("in/a.json.bak", b"b")
        assert reader.delete(ref) is True
        assert self.bytes_at(reader, "in/a.json") is None
        assert [found.uri for found in reader.list(self.uri("in/"))] == [self.uri("in/a.json.bak")]

    def test_delete_of_what_is_gone_is_not_an_error(self, make_reader: MakeReader) -> None:
        """One that was gone before is not an error. What a crash cut short is called again."""
        reader = make_reader()
        ref = self.stored(reader, "in/a.json", b"a")
        self.remove("in/a.json")
        assert reader.delete(ref) is True
        assert make_reader().delete(ref) is True

    @pytest.mark.parametrize("data", [b"longer than before", b"equal"], ids=["longer", "same size"])
    def test_delete_leaves_an_overwritten_object_alone(self, make_reader: MakeReader, data: bytes) -> None:
        """If it still is this version; an overwritten one is left alone."""
        reader = make_reader()
        ref = self.overwritten(reader, data)
        assert reader.delete(ref) is False
        assert self.bytes_at(reader, "in/a.json") == data

    def test_move_brings_the_object_to_the_uri(self, make_reader: MakeReader) -> None:
        """Copy the object to `uri`, then delete it. True if it is gone now and its copy is there."""
        reader = make_reader()
        ref = self.stored(reader, "in/a.json", b"a")
        assert reader.move(ref, self.uri("archive/deep/a.json")) is True
        assert self.bytes_at(reader, "in/a.json") is None
        assert self.bytes_at(reader, "archive/deep/a.json") == b"a"

    @pytest.mark.parametrize("name", ["with space.json", "ünï/çödé.json", "a+b&c=d;e.json", "100%25.json"])
    def test_odd_names_are_moved(self, make_reader: MakeReader, name: str) -> None:
        reader = make_reader()
        ref = self.stored(reader, f"in/{name}", b"odd")
        assert reader.move(ref, self.uri(f"archive/{name}")) is True
        assert self.bytes_at(reader, f"archive/{name}") == b"odd"
        assert self.bytes_at(reader, f"in/{name}") is None

    def test_a_move_that_was_done_ends_the_same_again(self, make_reader: MakeReader) -> None:
        """What a crash cut short is called again, and then ends as if there had been no crash."""
        ref = self.stored(make_reader(), "in/a.json", b"a")
        for _ in range(2):
            assert make_reader().move(ref, self.uri("archive/a.json")) is True
        assert self.bytes_at(make_reader(), "archive/a.json") == b"a"

    def test_move_of_what_is_gone_is_not_an_error(self, make_reader: MakeReader) -> None:
        """One that is gone is not an error; without a copy it is not True either."""
        reader = make_reader()
        ref = self.stored(reader, "in/a.json", b"a")
        self.remove("in/a.json")
        assert reader.move(ref, self.uri("archive/a.json")) is False
        assert self.bytes_at(reader, "archive/a.json") is None

    @pytest.mark.parametrize("data", [b"longer than before", b"equal"], ids=["longer", "same size"])
    def test_move_leaves_an_overwritten_object_alone(self, make_reader: MakeReader, data: bytes) -> None:
        """An overwritten one is left alone."""
        reader = make_reader()
        ref = self.overwritten(reader, data)
        assert reader.move(ref, self.uri("archive/a.json")) is False
        assert self.bytes_at(reader, "in/a.json") == data
        assert self.bytes_at(reader, "archive/a.json") is None

    def test_move_never_replaces_another_object(self, make_reader: MakeReader) -> None:
        """And so is another object that stands at `uri`."""
        reader = make_reader()
        ref = self.stored(reader, "in/a.json", b"equal")
        time.sleep(0.05)
        self.put("archive/a.json", b"other")
        assert reader.move(ref, self.uri("archive/a.json")) is False
        assert self.bytes_at(reader, "archive/a.json") == b"other"
        assert self.bytes_at(reader, "in/a.json") == b"equal"

    def test_several_threads_remove_at_once(self, make_reader: MakeReader) -> None:
        """Used from several threads."""
        reader = make_reader()
        refs = [self.stored(reader, f"in/{number}.json", b"x") for number in range(8)]
        done: list[bool] = []

        def work(number: int) -> None:
            target = self.uri(f"archive/{number}.json")
            done.append(reader.delete(refs[number]) if number % 2 else reader.move(refs[number], target))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert done == [True] * 8
        assert list(reader.list(self.uri("in/"))) == []
