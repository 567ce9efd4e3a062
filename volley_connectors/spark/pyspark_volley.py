"""Where Spark finds the format `volley`: it imports every top-level module named pyspark_* and takes its DefaultSource.

One such module that raises hides every Python data source there is, so this one never does: if Volley cannot be
imported, the format is still there and says why it does not work.
"""

from pyspark.sql.datasource import DataSource

try:
    from volley_connectors.spark.data_source import VolleyDataSource as DefaultSource
except Exception as error:
    reason = f"Volley is installed but cannot be imported ({type(error).__name__}: {error}). Run: volley doctor"

    class DefaultSource(DataSource):  # type: ignore[no-redef]
        def __init__(self, options: dict[str, str]) -> None:
            raise RuntimeError(reason)

        @classmethod
        def name(cls) -> str:
            return "volley"


__all__ = ["DefaultSource"]
