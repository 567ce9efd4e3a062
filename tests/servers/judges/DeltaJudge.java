import com.fasterxml.jackson.databind.JsonNode;
import io.delta.kernel.Scan;
import io.delta.kernel.Snapshot;
import io.delta.kernel.Table;
import io.delta.kernel.data.ColumnVector;
import io.delta.kernel.data.ColumnarBatch;
import io.delta.kernel.data.FilteredColumnarBatch;
import io.delta.kernel.data.MapValue;
import io.delta.kernel.data.Row;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.expressions.Column;
import io.delta.kernel.expressions.Literal;
import io.delta.kernel.expressions.Predicate;
import io.delta.kernel.internal.InternalScanFileUtils;
import io.delta.kernel.internal.data.ScanStateRow;
import io.delta.kernel.internal.types.DataTypeJsonSerDe;
import io.delta.kernel.internal.util.Utils;
import io.delta.kernel.types.*;
import io.delta.kernel.utils.CloseableIterator;
import io.delta.kernel.utils.FileStatus;
import java.io.IOException;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;

/** Delta Kernel, the Java library that connectors of other engines read Delta tables with. */
final class DeltaJudge extends Judge {
  private final Engine engine = DefaultEngine.create(new Configuration());

  public static void main(String[] arguments) throws IOException {
    new DeltaJudge().serve();
  }

  @Override
  void read(JsonNode request) throws Exception {
    Table table = Table.forPath(engine, request.get("path").asText());
    Snapshot snapshot =
        request.hasNonNull("version")
            ? table.getSnapshotAsOfVersion(engine, request.get("version").asLong())
            : table.getLatestSnapshot(engine);
    Optional<Predicate> where =
        request.hasNonNull("where")
            ? Optional.of(predicate(snapshot.getSchema(), request.get("where")))
            : Optional.empty();
    Scan scan = where.map(snapshot.getScanBuilder()::withFilter).orElseGet(snapshot::getScanBuilder).build();
    // A scan gives its files only once.
    long allFiles = files(snapshot.getScanBuilder().build()).size();
    List<String> names =
        List.of("version", "schema", "partition_columns", "properties", "transactions", "all_files");
    List<Object> values =
        List.of(
            snapshot.getVersion(),
            DataTypeJsonSerDe.serializeStructType(snapshot.getSchema()),
            snapshot.getPartitionColumnNames(),
            snapshot.getTableProperties(),
            transactions(snapshot),
            allFiles);
    say("table", new Struct(names, values));
    Row state = scan.getScanState(engine);
    for (Row file : files(scan)) {
      say("file", InternalScanFileUtils.getAddFileStatus(file).getPath());
      rows(state, file, where);
    }
  }

  private List<Row> files(Scan scan) throws IOException {
    List<Row> files = new ArrayList<>();
    try (CloseableIterator<FilteredColumnarBatch> batches = scan.getScanFiles(engine)) {
      while (batches.hasNext()) {
        batches.next().getRows().forEachRemaining(files::add);
      }
    }
    return files;
  }

  /** What a checkpoint of this version would hold is all there is to know of it, so also every transaction. */
  private Map<String, Long> transactions(Snapshot snapshot) throws IOException {
    Map<String, Long> transactions = new LinkedHashMap<>();
    try (var batches = snapshot.getCreateCheckpointIterator(engine)) {
      while (batches.hasNext()) {
        FilteredColumnarBatch batch = batches.next();
        int column = batch.getData().getSchema().indexOf("txn");
        batch
            .getRows()
            .forEachRemaining(
                row -> {
                  if (!row.isNullAt(column)) {
                    Row transaction = row.getStruct(column);
                    StructType schema = transaction.getSchema();
                    transactions.put(
                        transaction.getString(schema.indexOf("appId")), transaction.getLong(schema.indexOf("version")));
                  }
                });
      }
    }
    return transactions;
  }

  private void rows(Row state, Row file, Optional<Predicate> where) throws IOException {
    StructType schema = ScanStateRow.getPhysicalDataReadSchema(state);
    CloseableIterator<FileStatus> status =
        Utils.singletonCloseableIterator(InternalScanFileUtils.getAddFileStatus(file));
    CloseableIterator<ColumnarBatch> data =
        engine.getParquetHandler().readParquetFiles(status, schema, where).map(read -> read.getData());
    try (CloseableIterator<FilteredColumnarBatch> batches = Scan.transformPhysicalData(engine, state, file, data)) {
      while (batches.hasNext()) {
        FilteredColumnarBatch batch = batches.next();
        Optional<ColumnVector> selected = batch.getSelectionVector();
        if (where.isPresent()) {
          StructType columns = batch.getData().getSchema();
          var evaluator = engine.getExpressionHandler().getPredicateEvaluator(columns, where.get());
          selected = Optional.of(evaluator.eval(batch.getData(), selected));
        }
        rows(batch.getData(), selected);
      }
    }
  }

  private void rows(ColumnarBatch batch, Optional<ColumnVector> selected) throws IOException {
    List<String> names = batch.getSchema().fieldNames();
    for (int row = 0; row < batch.getSize(); row++) {
      if (selected.isPresent() && (selected.get().isNullAt(row) || !selected.get().getBoolean(row))) {
        continue;
      }
      List<Object> values = new ArrayList<>();
      for (int column = 0; column < names.size(); column++) {
        values.add(value(batch.getColumnVector(column), row));
      }
      say("row", new Struct(names, values));
    }
  }

  private static Object value(ColumnVector vector, int row) {
    DataType type = vector.getDataType();
    if (vector.isNullAt(row)) {
      return null;
    } else if (type instanceof BooleanType) {
      return vector.getBoolean(row);
    } else if (type instanceof ByteType) {
      return vector.getByte(row);
    } else if (type instanceof ShortType) {
      return vector.getShort(row);
    } else if (type instanceof IntegerType) {
      return vector.getInt(row);
    } else if (type instanceof LongType) {
      return vector.getLong(row);
    } else if (type instanceof FloatType) {
      return vector.getFloat(row);
    } else if (type instanceof DoubleType) {
      return vector.getDouble(row);
    } else if (type instanceof DecimalType) {
      return vector.getDecimal(row);
    } else if (type instanceof StringType) {
      return vector.getString(row);
    } else if (type instanceof BinaryType) {
      return vector.getBinary(row);
    } else if (type instanceof DateType) {
      return LocalDate.ofEpochDay(vector.getInt(row));
    } else if (type instanceof TimestampType) {
      return Instant.EPOCH.plus(vector.getLong(row), ChronoUnit.MICROS);
    } else if (type instanceof TimestampNTZType) {
      return LocalDateTime.ofEpochSecond(0, 0, ZoneOffset.UTC).plus(vector.getLong(row), ChronoUnit.MICROS);
    } else if (type instanceof ArrayType) {
      return values(vector.getArray(row).getElements(), vector.getArray(row).getSize());
    } else if (type instanceof MapType) {
      MapValue map = vector.getMap(row);
      List<Object> keys = values(map.getKeys(), map.getSize());
      List<Object> items = values(map.getValues(), map.getSize());
      Map<Object, Object> pairs = new LinkedHashMap<>();
      for (int i = 0; i < keys.size(); i++) {
        pairs.put(keys.get(i), items.get(i));
      }
      return pairs;
    } else if (type instanceof StructType struct) {
      List<Object> fields = new ArrayList<>();
      for (int i = 0; i < struct.length(); i++) {
        fields.add(value(vector.getChild(i), row));
      }
      return new Struct(struct.fieldNames(), fields);
    }
    throw new IllegalArgumentException("No value for a column of type " + type);
  }

  private static List<Object> values(ColumnVector vector, int size) {
    List<Object> values = new ArrayList<>();
    for (int i = 0; i < size; i++) {
      values.add(value(vector, i));
    }
    return values;
  }

  /** Of a column, an operator, and a literal unless the operator needs none. */
  private static Predicate predicate(StructType schema, JsonNode where) {
    String name = where.get(0).asText();
    String operator = where.get(1).asText().toUpperCase();
    if (where.size() == 2) {
      return new Predicate(operator.replace(' ', '_'), new Column(name));
    }
    Literal literal = literal(schema.get(name).getDataType(), where.get(2).asText());
    return new Predicate(operator, List.of(new Column(name), literal));
  }

  private static Literal literal(DataType type, String text) {
    if (type instanceof BooleanType) {
      return Literal.ofBoolean(Boolean.parseBoolean(text));
    } else if (type instanceof ByteType) {
      return Literal.ofByte(Byte.parseByte(text));
    } else if (type instanceof ShortType) {
      return Literal.ofShort(Short.parseShort(text));
    } else if (type instanceof IntegerType) {
      return Literal.ofInt(Integer.parseInt(text));
    } else if (type instanceof LongType) {
      return Literal.ofLong(Long.parseLong(text));
    } else if (type instanceof FloatType) {
      return Literal.ofFloat(Float.parseFloat(text));
    } else if (type instanceof DoubleType) {
      return Literal.ofDouble(Double.parseDouble(text));
    } else if (type instanceof DecimalType decimal) {
      BigDecimal value = new BigDecimal(text).setScale(decimal.getScale());
      return Literal.ofDecimal(value, decimal.getPrecision(), decimal.getScale());
    } else if (type instanceof StringType) {
      return Literal.ofString(text);
    } else if (type instanceof BinaryType) {
      return Literal.ofBinary(Base64.getDecoder().decode(text));
    } else if (type instanceof DateType) {
      return Literal.ofDate((int) LocalDate.parse(text).toEpochDay());
    } else if (type instanceof TimestampType) {
      return Literal.ofTimestamp(ChronoUnit.MICROS.between(Instant.EPOCH, Instant.parse(text)));
    } else if (type instanceof TimestampNTZType) {
      Instant instant = LocalDateTime.parse(text).toInstant(ZoneOffset.UTC);
      return Literal.ofTimestampNtz(ChronoUnit.MICROS.between(Instant.EPOCH, instant));
    }
    throw new IllegalArgumentException("No literal of type " + type);
  }
}
