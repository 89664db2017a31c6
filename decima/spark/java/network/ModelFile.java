package decima.network;

import decima.spark.Json;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Weights as `decima train` writes them (decima/agent/model.py), checked and taken layer by layer. */
final class ModelFile {
  private static final String FORMAT = "decima-model";
  private static final int VERSION = 1;
  /** version of decima/agent/columns.py, by which the inputs are computed here, too */
  private static final int FEATURE_VERSION = Json.<Integer>shared("feature_version");
  /** of a whole network */
  private static final long MAX_PARAMETERS = 4_000_000;

  final Shape shape;
  private final Tensors tensors;
  /** by name: the shape of every tensor */
  private final Map<String, List<Integer>> expected = new LinkedHashMap<>();

  /** @throws IllegalArgumentException (one line) no model, one of another version, or damaged. */
  ModelFile(byte[] data) {
    tensors = new Tensors(data);
    Map<?, ?> facts = tensors.facts;
    check(FORMAT.equals(facts.get("format")), "not a model of `decima train`");
    check(Integer.valueOf(VERSION).equals(facts.get("version")),
        "version " + facts.get("version") + ", this reader knows " + VERSION);
    check(Integer.valueOf(FEATURE_VERSION).equals(facts.get("feature_version")),
        "trained on feature version " + facts.get("feature_version")
            + ", this program computes version " + FEATURE_VERSION + "; train it again");
    check(facts.get("network") instanceof Map, "its header names no network");
    shape = new Shape((Map<?, ?>) facts.get("network"));
    expectAll();
    checkTensors();
  }

  private static void check(boolean isFine, String fault) {
    if (!isFine) {
      throw new IllegalArgumentException(fault);
    }
  }

  // --- what there must be --------------------------------------------------------------------

  private void expectAll() {
    int size = shape.embedding;
    expectLinear("encoder.lift", width("NODE"), size);
    expectSum("encoder.node_sum", size);
    expectSum("encoder.job_sum", width("NODE") + size);
    expectSum("encoder.cluster_sum", size);
    int ofJob = size + width("JOB");
    int ofCluster = size + width("CLUSTER");
    int ofStage = size + width("STAGE");
    expectHead("stage_head", shape.headHidden, ofStage, ofJob, ofCluster);
    expectHead("limit_head", shape.headHidden, width("LIMIT"), ofJob, ofCluster);
    // The critic, and the classes of executors that a session has not: there, and not read.
    expectHead("value_head", shape.headHidden, ofCluster);
    expectHead("class_head", shape.headHidden, width("CLASS"), ofStage, ofJob, ofCluster);
    int[] lastHidden = {shape.headHidden[shape.headHidden.length - 1]};
    expectHead("end_head", lastHidden, ofCluster);
  }

  private static int width(String table) {
    return Network.columns(table).size();
  }

  private void expectLinear(String name, int inputs, int outputs) {
    expected.put(name + ".weight", Arrays.asList(outputs, inputs));
    expected.put(name + ".bias", Arrays.asList(outputs));
  }

  private void expectSum(String name, int inputs) {
    expectTransform(name + ".f", shape.transform(inputs));
    if (shape.twoLevel) {
      expectTransform(name + ".g", shape.transform(shape.embedding));
    }
  }

  private void expectTransform(String name, List<Integer> sizes) {
    for (int layer = 0; layer + 1 < sizes.size(); layer++) {
      // Numbers between are those of the LeakyReLUs.
      expectLinear(name + "." + 2 * layer, sizes.get(layer), sizes.get(layer + 1));
    }
  }

  private void expectHead(String name, int[] hidden, int... tables) {
    for (int table = 0; table < tables.length; table++) {
      expected.put(name + ".parts." + table + ".weight", Arrays.asList(hidden[0], tables[table]));
    }
    expected.put(name + ".parts.0.bias", Arrays.asList(hidden[0]));
    for (int layer = 0; layer + 1 < hidden.length; layer++) {
      expectLinear(name + ".body." + layer, hidden[layer], hidden[layer + 1]);
    }
    expectLinear(name + ".last", hidden[hidden.length - 1], 1);
  }

  private void checkTensors() {
    long parameters = 0;
    Set<String> names = new HashSet<>(expected.keySet());
    names.addAll(tensors.names());
    for (String name : names) {
      List<Integer> shape = expected.get(name);
      check(shape != null && shape.equals(tensors.shape(name)),
          "weights '" + name + "' do not fit the network that its header names");
      for (float value : tensors.values(name)) {
        check(Float.isFinite(value), "weights '" + name + "' are not all finite");
      }
      parameters += tensors.values(name).length;
    }
    check(parameters <= MAX_PARAMETERS,
        "a network of " + parameters + " parameters: at most " + MAX_PARAMETERS + " are possible");
  }

  // --- taking it -----------------------------------------------------------------------------

  /** A layer; a part of a head behind its first has no bias. */
  Layer linear(String name) {
    List<Integer> size = expected.get(name + ".weight");
    float[] flat = tensors.values(name + ".weight");
    float[] bias = tensors.values(name + ".bias");
    int outputs = size.get(0);
    int inputs = size.get(1);
    float[][] weight = new float[inputs][outputs];
    for (int input = 0; input < inputs; input++) {
      for (int output = 0; output < outputs; output++) {
        weight[input][output] = flat[output * inputs + input];
      }
    }
    return new Layer(weight, bias == null ? new float[outputs] : bias);
  }

  /** One of the encoder's transforms; the identity if the network has none of this name. */
  Transform transform(String name) {
    return new Transform(layers(name, 2)); // numbers between are those of the LeakyReLUs
  }

  /** A head with the parts of its first layer. */
  Network.Head head(String name, Layer[] parts) {
    List<Layer> rest = layers(name + ".body", 1);
    rest.add(linear(name + ".last"));
    return new Network.Head(parts, new Transform(rest));
  }

  Layer[] parts(String head) {
    return layers(head + ".parts", 1).toArray(new Layer[0]);
  }

  private List<Layer> layers(String name, int step) {
    List<Layer> layers = new ArrayList<>();
    for (int number = 0; expected.containsKey(name + "." + number + ".weight"); number += step) {
      layers.add(linear(name + "." + number));
    }
    return layers;
  }

  /** Sizes of a network, and the parts that an ablation leaves out (`NetworkConfig` in decima/agent). */
  static final class Shape {
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
     * @param header its entry in a model file.
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
      Object value = given(header, name, true);
      check(value instanceof Boolean, name + " " + value + " is neither true nor false");
      return (Boolean) value;
    }

    /** Sizes from the inputs of one of the encoder's transforms to its outputs. */
    List<Integer> transform(int inputs) {
      List<Integer> sizes = new ArrayList<>();
      sizes.add(inputs);
      for (int units : hidden) {
        sizes.add(units);
      }
      sizes.add(embedding);
      return sizes;
    }
  }
}
