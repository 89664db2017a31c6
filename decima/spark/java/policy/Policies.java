package decima.policy;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;

/** The policies that decide inside the JVM, by name. */
public final class Policies {
  public static final List<String> NAMES =
      Arrays.asList("fifo", "spark_fair", "strict_fair", "tuned_srw", "es_rule");

  private Policies() {}

  /**
   * The policy called `name`.
   *
   * @param file of `decima tune -o` or `decima fit-rule -o`, with its parameters; null: those that
   *     the jar holds.
   * @throws IllegalArgumentException no such policy, it takes no parameters, or the file is not to
   *     be read, another policy's or of other parameters.
   */
  public static Policy named(String name, File file) {
    switch (name) {
      case "tuned_srw":
        return new ShortestRemaining(
            file == null
                ? ShortestRemaining.DEFAULTS
                : values(name, file, Arrays.asList(ShortestRemaining.PARAMETERS)));
      case "es_rule":
        return new ScoringRule(name, values(name, file, ScoringRule.parameters()));
      default:
        if (file != null && NAMES.contains(name)) {
          throw new IllegalArgumentException("policy '" + name + "' takes no parameters");
        }
        return simple(name);
    }
  }

  private static Policy simple(String name) {
    switch (name) {
      case "fifo":
        return new Fifo();
      case "spark_fair":
        return new SparkFair();
      case "strict_fair":
        return new StrictFair();
      default:
        throw new IllegalArgumentException(
            "policy '" + name + "': inside the JVM there are " + String.join(", ", NAMES));
    }
  }

  /** The parameters in the order of `names`; the file must hold these and no others. */
  private static double[] values(String policy, File file, List<String> names) {
    String where = file == null ? "the jar's weights of " + policy : file.toString();
    Map<?, ?> content = content(policy, file, where);
    if (!policy.equals(content.get("policy"))) {
      throw new IllegalArgumentException(
          where + ": parameters of '" + content.get("policy") + "', not of '" + policy + "'");
    }
    Object told = content.get("parameters");
    if (!(told instanceof Map) || !((Map<?, ?>) told).keySet().equals(new HashSet<>(names))) {
      throw new IllegalArgumentException(where + ": its features are not those of this version");
    }
    double[] found = new double[names.size()];
    for (int index = 0; index < found.length; index++) {
      Object value = ((Map<?, ?>) told).get(names.get(index));
      if (!(value instanceof Number) || !Double.isFinite(((Number) value).doubleValue())) {
        throw new IllegalArgumentException(
            where + ": " + names.get(index) + " must be a finite number, got " + value);
      }
      found[index] = ((Number) value).doubleValue();
    }
    return found;
  }

  private static Map<?, ?> content(String policy, File file, String where) {
    ObjectMapper mapper = new ObjectMapper();
    try {
      if (file != null) {
        return mapper.readValue(file, Map.class);
      }
      try (InputStream shipped = Policies.class.getResourceAsStream(policy + ".json")) {
        if (shipped == null) {
          throw new IllegalArgumentException(where + " are not there");
        }
        return mapper.readValue(shipped, Map.class);
      }
    } catch (IOException error) {
      String reason = error.getMessage() == null ? error.toString() : error.getMessage();
      throw new IllegalArgumentException(where + ": " + reason.split("\n")[0], error);
    }
  }
}
