"""The contracts as tests: a connector's test class inherits a suite and says how to make the connector.

    class TestMySink(StagingSinkSuite):
        @pytest.fixture
        def make_sink(self, tmp_path):
            self.path = tmp_path
            return lambda **options: MySink(MySinkConfig(path=str(tmp_path), **options))

        def published(self):
            return read_my_table(self.path)

Each test quotes the sentence that it holds a connector to. A crash is an instance that is dropped without a word and
a new one made in its place. What a connector cannot do for a reason is marked `xfail(reason=...)`, never left out.
Needs pytest, which the rest of `volley_core` does not.
"""

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{module}"
        for module in (
            "blob_reader",
            "blob_remover",
            "cutting_decoder",
            "decoder",
            "tolerant_decoder",
            "identity",
            "notification_source",
            "rows",
            "sink",
            "source",
        )
    ),
    f"{__name__}.split_source",
)

from volley_core.conformance.blob_reader import BlobReaderSuite  # noqa: E402
from volley_core.conformance.blob_remover import BlobRemoverSuite  # noqa: E402
from volley_core.conformance.cutting_decoder import CuttingDecoderSuite  # noqa: E402
from volley_core.conformance.decoder import DecoderSuite  # noqa: E402
from volley_core.conformance.nasty import NASTY  # noqa: E402
from volley_core.conformance.notification_source import NotificationSourceSuite  # noqa: E402
from volley_core.conformance.rows import sample  # noqa: E402
from volley_core.conformance.sink import (  # noqa: E402
    EpochSinkSuite,
    PreparedSinkSuite,
    SinkSuite,
    StagingSinkSuite,
)
from volley_core.conformance.source import ResumableSourceSuite, SourceSuite  # noqa: E402
from volley_core.conformance.split_source import SplitSourceSuite  # noqa: E402
from volley_core.conformance.tolerant_decoder import TolerantDecoderSuite  # noqa: E402

__all__ = [
    "NASTY",
    "BlobReaderSuite",
    "BlobRemoverSuite",
    "CuttingDecoderSuite",
    "DecoderSuite",
    "EpochSinkSuite",
    "NotificationSourceSuite",
    "PreparedSinkSuite",
    "ResumableSourceSuite",
    "SinkSuite",
    "SourceSuite",
    "SplitSourceSuite",
    "StagingSinkSuite",
    "TolerantDecoderSuite",
    "sample",
]
