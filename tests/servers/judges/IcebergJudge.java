import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.ResolvingFileIO;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.SnapshotUtil;

/** Iceberg generics, the reader of Iceberg's own Java library that needs no engine. */
final class IcebergJudge extends Judge {
  private static final Map<String, Expression.Operation> OPERATIONS =
      Map.of(
          "=", Expression.Operation.EQ,
          "<", Expression.Operation.LT,
          "<=", Expression.Operation.LT_EQ,
          ">", Expression.Operation.GT,
          ">=", Expression.Operation.GT_EQ,
          "is null", Expression.Operation.IS_NULL,
          "is not null", Expression.Operation.NOT_NULL);

  public static void main(String[] arguments) throws IOException {
    new IcebergJudge().serve();
  }

  @Override
  void read(JsonNode request) throws Exception {
    try (ResolvingFileIO io = new ResolvingFileIO()) {
      Map<String, String> properties = new HashMap<>();
      request.get("properties").properties().forEach(pair -> properties.put(pair.getKey(), pair.getValue().asText()));
      io.setConf(new Configuration());
      io.initialize(properties);
      String location = request.get("path").asText();
      Table table = new BaseTable(new StaticTableOperations(location, io), location);
      if (request.hasNonNull("version")) {
        Snapshot snapshot = table.snapshot(request.get("version").asLong());
        read(table, snapshot, request.get("where"));
      } else {
        read(table, table.snapshot(request.get("branch").asText()), request.get("where"));
      }
    }
  }

  private void read(Table table, Snapshot snapshot, JsonNode where) throws IOException {
    Schema schema = snapshot == null ? table.schema() : SnapshotUtil.schemaFor(table, snapshot.snapshotId());
    Expression filter = where.isNull() ? Expressions.alwaysTrue() : predicate(schema, where);
    List<String> names =
        List.of("version", "schema", "partition_columns", "properties", "snapshots", "all_files");
    List<Object> values =
        List.of(
            snapshot == null ? -1L : snapshot.snapshotId(),
            SchemaParser.toJson(schema),
            table.spec().fields().stream().map(field -> partition(table, field)).toList(),
            table.properties(),
            snapshots(table, snapshot),
            (long) files(table, snapshot, Expressions.alwaysTrue()).size());
    say("table", new Struct(names, values));
    for (String file : files(table, snapshot, filter)) {
      say("file", file);
    }
    if (snapshot == null) {
      return;
    }
    var reader = IcebergGenerics.read(table).useSnapshot(snapshot.snapshotId()).where(filter);
    try (CloseableIterable<Record> records = reader.build()) {
      for (Record record : records) {
        say("row", value(record));
      }
    }
  }

  private static List<String> files(Table table, Snapshot snapshot, Expression filter) throws IOException {
    List<String> files = new ArrayList<>();
    if (snapshot != null) {
      TableScan scan = table.newScan().useSnapshot(snapshot.snapshotId()).filter(filter);
      try (CloseableIterable<FileScanTask> tasks = scan.planFiles()) {
        tasks.forEach(task -> files.add(task.file().location()));
      }
    }
    return files;
  }

  private static String partition(Table table, PartitionField field) {
    String column = table.schema().findColumnName(field.sourceId());
    return field.transform().isIdentity() ? column : field.transform() + "(" + column + ")";
  }

  private static List<Map<String, String>> snapshots(Table table, Snapshot newest) {
    List<Map<String, String>> snapshots = new ArrayList<>();
    for (Snapshot snapshot = newest; snapshot != null; snapshot = parent(table, snapshot)) {
      Map<String, String> summary = new LinkedHashMap<>(snapshot.summary());
      summary.put("snapshot-id", Long.toString(snapshot.snapshotId()));
      summary.put("operation", snapshot.operation());
      snapshots.add(summary);
    }
    return snapshots;
  }

  private static Snapshot parent(Table table, Snapshot snapshot) {
    return snapshot.parentId() == null ? null : table.snapshot(snapshot.parentId());
  }

  private static Object value(Object value) {
    if (value instanceof Record record) {
      List<Object> values = new ArrayList<>();
      for (int i = 0; i < record.size(); i++) {
        values.add(value(record.get(i)));
      }
      return new Struct(record.struct().fields().stream().map(Types.NestedField::name).toList(), values);
    } else if (value instanceof List<?> list) {
      List<Object> values = new ArrayList<>();
      list.forEach(element -> values.add(value(element)));
      return values;
    } else if (value instanceof Map<?, ?> map) {
      Map<Object, Object> values = new LinkedHashMap<>();
      map.forEach((key, item) -> values.put(value(key), value(item)));
      return values;
    }
    return value;
  }

  /** Of a column, an operator, and a literal unless the operator needs none. */
  private static Expression predicate(Schema schema, JsonNode where) {
    String name = where.get(0).asText();
    Expression.Operation operation = OPERATIONS.get(where.get(1).asText());
    return where.size() == 2
        ? Expressions.predicate(operation, name)
        : Expressions.predicate(operation, name, literal(schema.findType(name), where.get(2).asText()));
  }

  @SuppressWarnings("unchecked")
  private static Literal<Object> literal(Type type, String text) {
    Object value =
        switch (type.typeId()) {
          case BOOLEAN -> Boolean.parseBoolean(text);
          case INTEGER -> Integer.parseInt(text);
          case LONG -> Long.parseLong(text);
          case FLOAT -> Float.parseFloat(text);
          case DOUBLE -> Double.parseDouble(text);
          case DECIMAL -> new BigDecimal(text).setScale(((Types.DecimalType) type).scale());
          case BINARY, FIXED -> ByteBuffer.wrap(Base64.getDecoder().decode(text));
          default -> text;
        };
    return (Literal<Object>) (Literal<?>) Expressions.lit(value).to(type);
  }
}
