package decima.network;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A safetensors file: the length of its header in eight bytes, the header as JSON, then numbers of 32
 * bits. Nothing in it is executed, and no more memory is taken than it has bytes.
 */
final class Tensors {
  private static final String METADATA = "__metadata__";
  /** in the metadata: what belongs to the numbers, as JSON */
  private static final String FACTS = "json";
  private static final ObjectMapper MAPPER = new ObjectMapper();

  final Map<?, ?> facts;
  private final Map<String, float[]> values = new HashMap<>();
  private final Map<String, List<?>> shapes = new HashMap<>();

  /** @throws IllegalArgumentException (one line) the file is cut short or no safetensors file. */
  Tensors(byte[] data) {
    check(data.length >= Long.BYTES, "it has " + data.length + " bytes");
    ByteBuffer all = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
    long length = all.getLong();
    check(length >= 2 && length <= data.length - Long.BYTES, "its header is cut short");
    Map<?, ?> header = json(data, Long.BYTES, (int) length, "its header");
    int first = Long.BYTES + (int) length;
    long bytes = 0;
    for (Map.Entry<?, ?> entry : header.entrySet()) {
      if (!METADATA.equals(entry.getKey())) {
        bytes += read(String.valueOf(entry.getKey()), entry.getValue(), all, first);
      }
    }
    check(bytes == data.length - first, "its numbers are " + (data.length - first)
        + " bytes, where its header names " + bytes);
    Object metadata = header.get(METADATA);
    Object stored = metadata instanceof Map ? ((Map<?, ?>) metadata).get(FACTS) : null;
    byte[] text = (stored instanceof String ? (String) stored : "{}").getBytes(
        java.nio.charset.StandardCharsets.UTF_8);
    facts = json(text, 0, text.length, "the facts in its header");
  }

  private static void check(boolean isFine, String fault) {
    if (!isFine) {
      throw new IllegalArgumentException("not a safetensors file, or damaged: " + fault);
    }
  }

  private static Map<?, ?> json(byte[] data, int first, int length, String what) {
    try {
      Object value = MAPPER.readValue(data, first, length, Object.class);
      check(value instanceof Map, what + ": not a JSON object");
      return (Map<?, ?>) value;
    } catch (IOException error) {
      throw new IllegalArgumentException(
          "not a safetensors file, or damaged: " + what + ": no JSON", error);
    }
  }

  /** Take one tensor; how many bytes it has. */
  private long read(String name, Object described, ByteBuffer all, int first) {
    check(described instanceof Map, name + " is described by no object");
    Map<?, ?> entry = (Map<?, ?>) described;
    check("F32".equals(entry.get("dtype")), name + " holds " + entry.get("dtype") + ", not F32");
    check(entry.get("shape") instanceof List && entry.get("data_offsets") instanceof List,
        name + " has no shape or no place");
    List<?> shape = (List<?>) entry.get("shape");
    List<?> place = (List<?>) entry.get("data_offsets");
    long left = all.capacity() - first;
    long count = 1;
    for (Object size : shape) {
      check(size instanceof Integer && (Integer) size >= 0, name + " has the shape " + shape);
      count *= (Integer) size;
      check(count <= left / Float.BYTES, name + " is cut short");
    }
    check(place.size() == 2 && place.get(0) instanceof Integer && place.get(1) instanceof Integer,
        name + " has the place " + place);
    long from = (Integer) place.get(0);
    long to = (Integer) place.get(1);
    check(from >= 0 && to <= left && to - from == count * Float.BYTES, name + " is cut short");
    float[] numbers = new float[(int) count];
    ByteBuffer bytes = all.duplicate().order(ByteOrder.LITTLE_ENDIAN);
    bytes.position(first + (int) from);
    bytes.asFloatBuffer().get(numbers);
    values.put(name, numbers);
    shapes.put(name, shape);
    return to - from;
  }

  java.util.Set<String> names() {
    return values.keySet();
  }

  List<?> shape(String name) {
    return shapes.get(name);
  }

  /** By name, row by row. */
  float[] values(String name) {
    return values.get(name);
  }
}
