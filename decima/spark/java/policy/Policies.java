package decima.policy;

import com.fasterxml.jackson.databind.ObjectMapper;
import decima.network.Network;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;

/** The policies that decide inside the JVM, by name. */
public final class Policies {
  public static final List<String> NAMES =
      Arrays.asList("fifo", "spark_fair", "strict_fair", "tuned_srw", "es_rule", "decima");
  /** other learned policies go by the path of their model file */
  private static final String MODEL = ".safetensors";
  /** in the content of a file: its name */
  private static final String FILE = "file";
  /** of the largest model file */
  private static final long MAX_BYTES = 32_000_000;
  /** files of the jar, read with this class: later the class loader may be closed (`JarClasses`) */
  private static final Map<String, byte[]> SHIPPED = new HashMap<>();

  static {
    for (String name : Arrays.asList("es_rule.json", "decima" + MODEL)) {
      SHIPPED.put(name, resource(name));
    }
  }

  private Policies() {}

  /** Whether the policy called `name` needs no Python. */
  public static boolean isInside(String name) {
    return NAMES.contains(name) || name.endsWith(MODEL);
  }

  /**
   * The policy called `name`, or the network in the model file of this name.
   *
   * @param content of a file of `decima tune -o` or `decima fit-rule -o` (`content`), with its
   *     parameters; null: those that the jar holds.
   * @throws IllegalArgumentException (one line) no such policy, it takes no parameters, these are
   *     another policy's or of another version, or a model is not to be read.
   */
  public static Policy named(String name, Map<?, ?> content) {
    switch (name) {
      case "tuned_srw":
        return new ShortestRemaining(
            content == null
                ? ShortestRemaining.DEFAULTS
                : values(name, content, Arrays.asList(ShortestRemaining.PARAMETERS)));
      case "es_rule":
        Map<?, ?> weights = content == null ? weights(name) : content;
        return new ScoringRule(name, values(name, weights, ScoringRule.parameters()));
      default:
        if (content != null && isInside(name)) {
          throw new IllegalArgumentException("policy '" + name + "' takes no parameters");
        }
        return name.equals("decima") || name.endsWith(MODEL) ? learned(name) : simple(name);
    }
  }

  private static Policy learned(String name) {
    boolean isShipped = !name.endsWith(MODEL);
    String where = isShipped ? "the jar's model" : name;
    try {
      return new LearnedPolicy(
          name, Network.read(isShipped ? SHIPPED.get(name + MODEL) : bytes(new File(name)), where));
    } catch (IOException error) {
      throw unreadable(where, error);
    }
  }

  private static byte[] bytes(File file) throws IOException {
    if (file.length() > MAX_BYTES) {
      throw new IOException(file.length() + " bytes; a model has at most " + MAX_BYTES);
    }
    return Files.readAllBytes(file.toPath());
  }

  private static byte[] resource(String name) {
    try (InputStream file = Policies.class.getResourceAsStream(name)) {
      if (file == null) {
        throw new IllegalStateException("the jar has no " + name);
      }
      ByteArrayOutputStream all = new ByteArrayOutputStream();
      byte[] buffer = new byte[1 << 16];
      for (int count = file.read(buffer); count >= 0; count = file.read(buffer)) {
        all.write(buffer, 0, count);
      }
      return all.toByteArray();
    } catch (IOException error) {
      throw unreadable("the jar's " + name, error);
    }
  }

  private static IllegalArgumentException unreadable(String where, IOException error) {
    String reason =
        error instanceof NoSuchFileException
            ? "no such file"
            : error.getMessage() == null ? error.toString() : error.getMessage();
    return new IllegalArgumentException(where + ": " + reason.split("\n")[0], error);
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

  /** The parameters in the order of `names`; `content` must hold these and no others. */
  private static double[] values(String policy, Map<?, ?> content, List<String> names) {
    Object file = content.get(FILE);
    String where = file == null ? "parameters of " + policy : file.toString();
    if (!policy.equals(content.get("policy"))) {
      throw new IllegalArgumentException(
          where + ": parameters of '" + content.get("policy") + "', not of '" + policy + "'");
    }
    Object values = content.get("parameters");
    if (!(values instanceof Map) || !((Map<?, ?>) values).keySet().equals(new HashSet<>(names))) {
      throw new IllegalArgumentException(where + ": its features are not those of this version");
    }
    double[] found = new double[names.size()];
    for (int index = 0; index < found.length; index++) {
      Object value = ((Map<?, ?>) values).get(names.get(index));
      if (!(value instanceof Number) || !Double.isFinite(((Number) value).doubleValue())) {
        throw new IllegalArgumentException(
            where + ": " + names.get(index) + " must be a finite number, got " + value);
      }
      found[index] = ((Number) value).doubleValue();
    }
    return found;
  }

  private static Map<?, ?> weights(String policy) {
    try {
      return new ObjectMapper().readValue(SHIPPED.get(policy + ".json"), Map.class);
    } catch (IOException error) {
      throw unreadable("the jar's weights of " + policy, error);
    }
  }

  /**
   * What a file of parameters holds.
   *
   * @throws IllegalArgumentException (one line) it is not to be read.
   */
  public static Map<?, ?> content(File file) {
    try {
      Map<Object, Object> found = new HashMap<>();
      found.putAll(new ObjectMapper().readValue(file, Map.class));
      found.put(FILE, file);
      return found;
    } catch (IOException error) {
      throw unreadable(file.toString(), error);
    }
  }
}
