"""The sink against the contracts that it claims to keep, in the eyes of Delta Kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from volley_delta import DeltaSink, DeltaSinkConfig

from tests.servers.judges.delta import DeltaJudge
from tests.servers.judges.judgement import multiset
from volley_core.conformance import EpochSinkSuite, PreparedSinkSuite, StagingSinkSuite


class TestDeltaSink(StagingSinkSuite, EpochSinkSuite, PreparedSinkSuite):
    refuses = {"odd_names": "Delta without column mapping takes no space, comma or the like in a column's name"}

    @pytest.fixture
    def make_sink(self, tmp_path: Path, delta_judge: DeltaJudge) -> Callable[..., DeltaSink]:
        self.path, self.judge = tmp_path / "table", delta_judge
        return lambda **options: DeltaSink(DeltaSinkConfig(table_uri=str(self.path), **options))

    def visible_rows(self) -> int:
        # While an epoch is published: a reader that looks often.
        return DeltaTable(self.path).to_pyarrow_table().num_rows if DeltaTable.is_deltatable(str(self.path)) else 0

    def expect(self, *tables: pa.Table) -> None:
        rows = self.judge.read(self.path).rows if DeltaTable.is_deltatable(str(self.path)) else []
        assert multiset(rows) == multiset(row for table in tables for row in table.to_pylist())

    def unfit(self) -> pa.Schema:
        return pa.schema([("id", pa.string()), ("name", pa.string())])
