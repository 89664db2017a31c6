package decima.spark;

import decima.policy.Policies;
import java.io.File;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkConf;
import org.apache.spark.network.util.JavaUtils;
import scala.Tuple2;

/** The settings `spark.decima.*`, checked; docs/plugin.md tells of each. */
final class Settings {
  private static final String PREFIX = "spark.decima.";
  /** the policy that leaves order to Spark: only users' caps hold */
  private static final String SPARK = "spark";
  /** Spark's order or the best policy, as a worker finds out */
  private static final String AUTO = "auto";
  private static final List<String> MODES = Arrays.asList("exact", "shadow");
  private static final Map<String, String> DEFAULTS = new LinkedHashMap<>();
  private static final int MAX_PORT = 65_535;
  private static final String REQUIRED = "required";
  /** by setting: the least and the most; what lies outside is a slip of the pen */
  private static final Map<String, String[]> TIMES = new HashMap<>();

  static {
    TIMES.put("lapse", new String[] {"100ms", "1h"});
    TIMES.put("hold", new String[] {"1ms", "1min"});
    TIMES.put("starve", new String[] {"100ms", "7d"});
    TIMES.put("idle", new String[] {"100ms", "7d"});
    TIMES.put("autoEvery", new String[] {"1s", "7d"});
  }

  static {
    DEFAULTS.put("policy", "strict_fair");
    DEFAULTS.put("parameters", null);
    DEFAULTS.put("mode", "exact");
    DEFAULTS.put("required", "false");
    DEFAULTS.put("lapse", "2s");
    DEFAULTS.put("hold", "100ms");
    DEFAULTS.put("starve", "60s");
    DEFAULTS.put("idle", "5s");
    DEFAULTS.put("metricsPort", null);
    DEFAULTS.put("decisionLog", null);
    DEFAULTS.put("priors", null);
    DEFAULTS.put("python", null);
    DEFAULTS.put("standIn", "strict_fair");
    DEFAULTS.put("autoEvery", "10min");
    DEFAULTS.put("maxSlotsPerJob", null);
    DEFAULTS.put("maxSlotsPerUser", null);
    DEFAULTS.put("maxSlotsPerGroup", null);
    DEFAULTS.put("maxSlotsPerPool", null);
  }

  /** setting -> kind of a cap, as `Caps` calls it */
  private static final Map<String, String> EACH = new HashMap<>();

  static {
    EACH.put("maxSlotsPerJob", "job");
    EACH.put("maxSlotsPerUser", "user");
    EACH.put("maxSlotsPerGroup", "group");
    EACH.put("maxSlotsPerPool", "pool");
  }

  private static final String ONE = "maxSlots.";
  /** settings that mean something beside caps alone */
  private static final List<String> KEPT = Arrays.asList("mode", "metricsPort");
  private static final List<String> NAMED_KINDS = Arrays.asList("user", "group", "pool");

  final String policy;
  final String mode;
  final long lapseMs;
  final long holdMs;
  final long starveMs;
  final long idleMs;
  final long autoEveryMs;
  /** -1: none; 0: any that is free */
  final int metricsPort;
  /** for the process of `python`; null where not set */
  final String parameters;
  final String decisionLog;
  final String priors;
  final String python;
  final Map<String, Integer> caps = new TreeMap<>();
  private final String standIn;
  private final Map<String, String> values;

  /** A driver's settings as they were given, without the prefix. */
  static Map<String, String> given(SparkConf conf) {
    Map<String, String> given = new LinkedHashMap<>();
    for (Tuple2<String, String> one : conf.getAll()) {
      if (one._1().startsWith(PREFIX)) {
        given.put(one._1().substring(PREFIX.length()), one._2());
      }
    }
    return given;
  }

  /** Whether the application is not to run without us: a value that is none of both is a yes. */
  static boolean isRequired(Map<String, String> given) {
    return !given.getOrDefault(REQUIRED, "false").equals("false");
  }

  /** Spark's own order under the caps that can be read, whatever is wrong with other settings. */
  static Settings capsOnly(Map<String, String> given) {
    Map<String, String> kept = new LinkedHashMap<>();
    kept.put("policy", SPARK);
    for (Map.Entry<String, String> one : given.entrySet()) {
      String name = one.getKey();
      boolean isCap = EACH.containsKey(name) || name.startsWith(ONE);
      if ((isCap || KEPT.contains(name)) && isUsable(one)) {
        kept.put(name, one.getValue());
      }
    }
    return new Settings(kept);
  }

  private static boolean isUsable(Map.Entry<String, String> setting) {
    try {
      new Settings(Collections.singletonMap(setting.getKey(), setting.getValue()));
      return true;
    } catch (SettingsError unusable) {
      return false;
    }
  }

  /**
   * Check settings.
   *
   * @throws SettingsError a setting is unknown, or its value not allowed.
   */
  Settings(Map<String, String> given) {
    values = new HashMap<>(DEFAULTS);
    for (Map.Entry<String, String> one : given.entrySet()) {
      if (one.getKey().startsWith(ONE)) {
        addNamedCap(one.getKey(), one.getValue());
      } else if (!DEFAULTS.containsKey(one.getKey())) {
        throw new SettingsError(
            PREFIX + one.getKey() + ": no such setting; there are "
                + String.join(", ", DEFAULTS.keySet()));
      } else {
        values.put(one.getKey(), one.getValue());
      }
    }
    for (Map.Entry<String, String> each : EACH.entrySet()) {
      if (values.get(each.getKey()) != null) {
        caps.put(each.getValue(), slots(each.getKey(), values.get(each.getKey())));
      }
    }
    policy = values.get("policy");
    mode = values.get("mode");
    if (!MODES.contains(mode)) {
      throw new SettingsError(
          PREFIX + "mode: '" + mode + "', there are " + String.join(", ", MODES));
    }
    String required = values.get(REQUIRED);
    if (!required.equals("true") && !required.equals("false")) {
      throw new SettingsError(PREFIX + "required: '" + required + "', there are true, false");
    }
    lapseMs = duration("lapse");
    holdMs = duration("hold");
    starveMs = duration("starve");
    idleMs = duration("idle");
    autoEveryMs = duration("autoEvery");
    metricsPort = values.get("metricsPort") == null ? -1 : port();
    parameters = values.get("parameters");
    decisionLog = values.get("decisionLog");
    priors = values.get("priors");
    python = values.get("python");
    standIn = values.get("standIn");
    checkWorker();
  }

  private void addNamedCap(String key, String value) {
    String[] parts = key.split("\\.", 3);
    if (parts.length < 3 || !NAMED_KINDS.contains(parts[1]) || parts[2].isEmpty()) {
      throw new SettingsError(
          PREFIX + key + ": no such setting; caps are called maxSlots.KIND.NAME, with KIND one of "
              + String.join(", ", NAMED_KINDS));
    }
    caps.put(parts[1] + " " + parts[2], slots(key, value));
  }

  private static int slots(String key, String value) {
    int found = wholeNumber(value);
    if (found < 1) {
      throw new SettingsError(
          PREFIX + key + ": '" + value + "', slots are whole numbers from 1 on");
    }
    return found;
  }

  private int port() {
    int found = wholeNumber(values.get("metricsPort"));
    if (found < 0 || found > MAX_PORT) {
      throw new SettingsError(
          PREFIX + "metricsPort: '" + values.get("metricsPort")
              + "', ports are whole numbers from 0 to " + MAX_PORT);
    }
    return found;
  }

  private static int wholeNumber(String text) {
    try {
      return Integer.parseInt(text.trim());
    } catch (NumberFormatException other) {
      return -1;
    }
  }

  private long duration(String key) {
    String value = values.get(key);
    long found;
    try {
      found = JavaUtils.timeStringAsMs(value);
    } catch (RuntimeException error) {
      throw new SettingsError(
          PREFIX + key + ": '" + value + "' is no time such as 100ms, 2s or 1min");
    }
    String[] bounds = TIMES.get(key);
    if (found < JavaUtils.timeStringAsMs(bounds[0]) || found > JavaUtils.timeStringAsMs(bounds[1])) {
      throw new SettingsError(
          PREFIX + key + ": '" + value + "' is " + found + " ms: from " + bounds[0] + " to "
              + bounds[1] + " are allowed, and a number without a unit is milliseconds");
    }
    return found;
  }

  private void checkWorker() {
    boolean isInside = isSparkOrder() || Policies.isInside(policy);
    if (!isInside && python == null) {
      throw new SettingsError(
          PREFIX + "policy: '" + policy + "' needs " + PREFIX + "python; without it there are "
              + SPARK + ", " + String.join(", ", Policies.NAMES) + " and model files");
    }
    for (String key : new String[] {"decisionLog", "priors"}) {
      if (values.get(key) != null && (python == null || isSparkOrder())) {
        throw new SettingsError(
            PREFIX + key + " needs " + PREFIX + "python, and a policy other than " + SPARK);
      }
    }
    if (!Policies.NAMES.contains(standIn)) {
      throw new SettingsError(
          PREFIX + "standIn: '" + standIn + "', there are " + String.join(", ", Policies.NAMES));
    }
  }

  boolean isShadow() {
    return mode.equals("shadow");
  }

  /** Whether order is left to Spark. */
  boolean isSparkOrder() {
    return policy.equals(SPARK);
  }

  /** Whether order is left to Spark, unless a worker says otherwise. */
  boolean beginsInSparkOrder() {
    return isSparkOrder() || policy.equals(AUTO);
  }

  /** Whether a Python process decides. */
  boolean needsWorker() {
    return python != null && !isSparkOrder();
  }

  /** What decides inside the JVM: the policy itself, or what stands in for the worker's. */
  String standIn() {
    if (beginsInSparkOrder()) {
      return "Spark's order";
    }
    return needsWorker() ? standIn : policy;
  }

  File standInParameters() {
    return needsWorker() || parameters == null ? null : new File(parameters);
  }

  @Override
  public String toString() {
    return "policy " + policy + ", mode " + mode + (caps.isEmpty() ? "" : ", caps " + caps);
  }
}
