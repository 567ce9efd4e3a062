import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * Reads tables for who asks on standard input, one request of JSON a line, for as long as that is open.
 *
 * <p>An answer is lines of JSON, each a kind and a value: "table", any number of "file" and "row", and "error" where
 * the reading failed. An empty line ends it. Values name their type where JSON has none for it: {"decimal": "1.50"}.
 */
abstract class Judge {
  /** What has names: a row, or a value of it. Maps are maps. */
  record Struct(List<String> names, List<Object> values) {}

  private final PrintStream out =
      new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
  private final ObjectMapper json = new ObjectMapper();

  /** Say what the table is, then which files are read, then every row. */
  abstract void read(JsonNode request) throws Exception;

  final void serve() throws IOException {
    // Libraries that print must not do so between the answers.
    System.setOut(System.err);
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      try {
        read(json.readTree(line));
      } catch (Exception | LinkageError error) {
        StringWriter trace = new StringWriter();
        error.printStackTrace(new PrintWriter(trace));
        say("error", trace.toString());
      }
      out.println();
      out.flush();
    }
  }

  final void say(String kind, Object value) throws IOException {
    // A line is whole or is not written at all, whatever is wrong with the value.
    StringWriter line = new StringWriter();
    try (JsonGenerator writer = json.getFactory().createGenerator(line)) {
      writer.writeStartArray();
      writer.writeString(kind);
      write(writer, value);
      writer.writeEndArray();
    }
    out.println(line);
  }

  private void write(JsonGenerator line, Object value) throws IOException {
    if (value == null) {
      line.writeNull();
    } else if (value instanceof Boolean truth) {
      line.writeBoolean(truth);
    } else if (value instanceof Double || value instanceof Float) {
      // As a double a float prints with all its digits, as Python reads it. NaN and the infinities become text.
      tagged(line, "float", Double.toString(((Number) value).doubleValue()));
    } else if (value instanceof BigDecimal decimal) {
      tagged(line, "decimal", decimal.toPlainString());
    } else if (value instanceof Number number) {
      line.writeNumber(number.longValue());
    } else if (value instanceof String text) {
      line.writeString(text);
    } else if (value instanceof LocalDate date) {
      tagged(line, "date", date.toString());
    } else if (value instanceof LocalTime time) {
      tagged(line, "time", time.toString());
    } else if (value instanceof Instant || value instanceof OffsetDateTime || value instanceof LocalDateTime) {
      tagged(line, "timestamp", value.toString());
    } else if (value instanceof UUID id) {
      tagged(line, "uuid", id.toString());
    } else if (value instanceof byte[] bytes) {
      tagged(line, "binary", Base64.getEncoder().encodeToString(bytes));
    } else if (value instanceof ByteBuffer buffer) {
      byte[] bytes = new byte[buffer.remaining()];
      buffer.duplicate().get(bytes);
      write(line, bytes);
    } else if (value instanceof List<?> list) {
      line.writeStartArray();
      for (Object element : list) {
        write(line, element);
      }
      line.writeEndArray();
    } else if (value instanceof Map<?, ?> map) {
      pairs(line, "map", new ArrayList<>(map.keySet()), new ArrayList<>(map.values()));
    } else if (value instanceof Struct struct) {
      pairs(line, "struct", struct.names(), struct.values());
    } else {
      throw new IllegalArgumentException("No JSON for a " + value.getClass());
    }
  }

  private void tagged(JsonGenerator line, String type, String text) throws IOException {
    line.writeStartObject();
    line.writeStringField(type, text);
    line.writeEndObject();
  }

  private void pairs(JsonGenerator line, String type, List<?> keys, List<?> values) throws IOException {
    line.writeStartObject();
    line.writeArrayFieldStart(type);
    for (int i = 0; i < keys.size(); i++) {
      line.writeStartArray();
      write(line, keys.get(i));
      write(line, values.get(i));
      line.writeEndArray();
    }
    line.writeEndArray();
    line.writeEndObject();
  }
}
