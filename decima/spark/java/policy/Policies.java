package decima.policy;

import decima.network.Network;
import decima.spark.Json;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.commons.io.IOUtils;

/** The policies that decide inside the JVM, by name. */
public final class Policies {
  /** other learned policies go by the path of their model file */
  private static final String MODEL = ".safetensors";
  private static final String SHIPPED = "decima";
  /** in the content of a file: its name */
  private static final String FILE = "file";
  /** of the largest model file */
  private static final long MAX_BYTES = 32_000_000;
  /** files of the jar, read with this class: later the class loader may be closed (`JarClasses`) */
  private static final byte[] MODEL_BYTES = resource(SHIPPED + MODEL);
  private static final byte[] WEIGHTS = resource(ScoringRule.NAME + ".json");
  public static final Set<String> NAMES =
      Collections.unmodifiableSet(
          new LinkedHashSet<>(
              Arrays.asList(
                  Fifo.NAME, SparkFair.NAME, StrictFair.NAME, ShortestRemaining.NAME,
                  ScoringRule.NAME, SHIPPED)));

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
    if (!isInside(name)) {
      throw new IllegalArgumentException(
          "policy '" + name + "': inside the JVM there are " + String.join(", ", NAMES));
    }
    switch (name) {
      case ShortestRemaining.NAME:
        return new ShortestRemaining(
            content == null
                ? ShortestRemaining.DEFAULTS
                : values(name, content, Arrays.asList(ShortestRemaining.PARAMETERS)));
      case ScoringRule.NAME:
        Map<?, ?> fitted = content == null ? json("the jar's weights", WEIGHTS) : content;
        return new ScoringRule(values(name, fitted, ScoringRule.parameters()));
      default:
        if (content != null) {
          throw new IllegalArgumentException("policy '" + name + "' takes no parameters");
        }
    }
    switch (name) {
      case Fifo.NAME:
        return new Fifo();
      case SparkFair.NAME:
        return new SparkFair();
      case StrictFair.NAME:
        return new StrictFair();
      case SHIPPED:
        return new LearnedPolicy(name, Network.read(MODEL_BYTES, "the jar's model"));
      default:
        try {
          return new LearnedPolicy(name, Network.read(bytes(new File(name)), name));
        } catch (IOException error) {
          throw unreadable(name, error);
        }
    }
  }

  private static byte[] bytes(File file) throws IOException {
    if (file.length() > MAX_BYTES) {
      throw new IOException(file.length() + " bytes; at most " + MAX_BYTES);
    }
    return Files.readAllBytes(file.toPath());
  }

  private static byte[] resource(String name) {
    try (InputStream file = Policies.class.getResourceAsStream(name)) {
      if (file == null) {
        throw new IllegalStateException("the jar has no " + name);
      }
      return IOUtils.toByteArray(file);
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
    double[] numbers = new double[names.size()];
    for (int index = 0; index < numbers.length; index++) {
      Object value = ((Map<?, ?>) values).get(names.get(index));
      if (!(value instanceof Number) || !Double.isFinite(((Number) value).doubleValue())) {
        throw new IllegalArgumentException(
            where + ": " + names.get(index) + " must be a finite number, got " + value);
      }
      numbers[index] = ((Number) value).doubleValue();
    }
    return numbers;
  }

  private static Map<?, ?> json(String where, byte[] text) {
    try {
      return Json.MAPPER.readValue(text, Map.class);
    } catch (IOException error) {
      throw unreadable(where, error);
    }
  }

  /**
   * Read a file of parameters.
   *
   * @throws IllegalArgumentException (one line) it cannot be read.
   */
  public static Map<?, ?> content(File file) {
    try {
      Map<Object, Object> content =
          new HashMap<>(json(file.toString(), bytes(file)));
      content.put(FILE, file);
      return content;
    } catch (IOException error) {
      throw unreadable(file.toString(), error);
    }
  }
}
