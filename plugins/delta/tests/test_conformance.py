"""The sink against the contracts that it claims to keep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from volley_delta import DeltaSink, DeltaSinkConfig

from volley_core.conformance import EpochSinkSuite, PreparedSinkSuite, StagingSinkSuite


class TestDeltaSink(StagingSinkSuite, EpochSinkSuite, PreparedSinkSuite):
    refuses = {"odd_names": "Delta without column mapping takes no space, comma or the like in a column's name"}

    @pytest.fixture
    def make_sink(self, tmp_path: Path) -> Callable[..., DeltaSink]:
        self.path = tmp_path / "table"
        return lambda **options: DeltaSink(DeltaSinkConfig(table_uri=str(self.path), **options))

    def published(self) -> pa.Table:
        if not DeltaTable.is_deltatable(str(self.path)):
            return pa.table({})
        return DeltaTable(str(self.path)).to_pyarrow_table()

    def unfit(self) -> pa.Schema:
        return pa.schema([("id", pa.string()), ("name", pa.string())])
