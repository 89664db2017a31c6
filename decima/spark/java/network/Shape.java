package decima.network;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Sizes of a network, and the parts that an ablation leaves out (`NetworkConfig` in decima/agent). */
final class Shape {
  /** hidden layers of one part */
  private static final int MAX_LAYERS = 16;
  /** units of a layer */
  private static final int MAX_UNITS = 1024;
  private static final Set<String> NAMES =
      new HashSet<>(
          Arrays.asList(
              "embedding", "hidden", "head_hidden", "two_level", "messages", "embeddings",
              "path_columns", "limit_head"));

  final int embedding;
  /** hidden layers of the encoder's transforms */
  final int[] hidden;
  final int[] headHidden;
  final boolean twoLevel;
  final boolean messages;
  final boolean embeddings;
  final boolean pathColumns;
  final boolean limitHead;

  /**
   * @param header that of a model file.
   * @throws IllegalArgumentException a name is unknown, or a size impossible.
   */
  Shape(Map<?, ?> header) {
    for (Object name : header.keySet()) {
      check(NAMES.contains(name), "'" + name + "' is unknown");
    }
    embedding = size("embedding", given(header, "embedding", 16));
    hidden = sizes("hidden", given(header, "hidden", Arrays.asList(16)));
    headHidden = sizes("head_hidden", given(header, "head_hidden", Arrays.asList(32, 16)));
    check(headHidden.length > 0, "head_hidden is empty");
    twoLevel = flag(header, "two_level");
    messages = flag(header, "messages");
    embeddings = flag(header, "embeddings");
    pathColumns = flag(header, "path_columns");
    limitHead = flag(header, "limit_head");
  }

  private static void check(boolean isFine, String fault) {
    if (!isFine) {
      throw new IllegalArgumentException("its header names an impossible network: " + fault);
    }
  }

  private static int size(String name, Object value) {
    boolean isSize = value instanceof Integer && (Integer) value >= 1 && (Integer) value <= MAX_UNITS;
    check(isSize, name + " " + value + ": sizes are whole numbers from 1 to " + MAX_UNITS);
    return (Integer) value;
  }

  private static int[] sizes(String name, Object value) {
    check(value instanceof List, name + " " + value + " is no list");
    List<?> values = (List<?>) value;
    check(values.size() <= MAX_LAYERS, name + ": at most " + MAX_LAYERS + " layers are possible");
    return values.stream().mapToInt(one -> size(name, one)).toArray();
  }

  private static Object given(Map<?, ?> header, String name, Object otherwise) {
    return header.containsKey(name) ? header.get(name) : otherwise;
  }

  private static boolean flag(Map<?, ?> header, String name) {
    Object found = given(header, name, true);
    check(found instanceof Boolean, name + " " + found + " is neither true nor false");
    return (Boolean) found;
  }

  /** Sizes from the inputs of one of the encoder's transforms to its outputs. */
  List<Integer> transform(int inputs) {
    List<Integer> found = new ArrayList<>();
    found.add(inputs);
    for (int one : hidden) {
      found.add(one);
    }
    found.add(embedding);
    return found;
  }
}
