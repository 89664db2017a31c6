package decima.spark;

import decima.policy.Policies;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.commons.text.similarity.LevenshteinDistance;
import org.apache.spark.SparkConf;
import org.apache.spark.network.util.JavaUtils;
import scala.Tuple2;

/** The settings `spark.decima.*` (docs/plugin.md), checked. */
final class Settings {
  private static final String PREFIX = "spark.decima.";
  /** the policy that leaves order to Spark: only users' caps hold */
  private static final String SPARK = "spark";
  /** Spark's order or the best policy, as a worker finds out */
  private static final String AUTO = "auto";
  /** pools with a weight or minShare of their own get their slots first, or are ignored */
  private static final String KEEP = "keep";
  private static final List<String> POOLS = Arrays.asList(KEEP, "ignore");
  private static final List<String> MODES = Arrays.asList("exact", "soft", "shadow");
  private static final Map<String, String> DEFAULTS = new LinkedHashMap<>();
  private static final int MAX_PORT = 65_535;
  /** least and most weight of an application */
  private static final List<Double> WEIGHTS = Json.shared("weights");
  private static final String REQUIRED = "required";
  private static final String MAX_JOBS = "maxJobs";
  /** the application does not start without the caps that it was given */
  private static final String CAPS = "caps";
  private static final List<String> REQUIRED_VALUES = Arrays.asList("true", CAPS, "false");
  /** by setting: the least and the most milliseconds; beyond lies a typo */
  private static final Map<String, List<Integer>> TIMES_MS = Json.shared("times_ms");

  static {
    DEFAULTS.put("policy", "strict_fair");
    DEFAULTS.put("parameters", null);
    DEFAULTS.put("mode", "exact");
    DEFAULTS.put("required", CAPS);
    DEFAULTS.put("lapse", "2s");
    DEFAULTS.put("hold", "100ms");
    DEFAULTS.put("starve", "60s");
    DEFAULTS.put("idle", "5s");
    DEFAULTS.put("decision", "500ms");
    DEFAULTS.put("failures", "5");
    DEFAULTS.put("metricsPort", null);
    DEFAULTS.put("decisionLog", null);
    DEFAULTS.put("decisionLogBytes", String.valueOf(16 << 20));
    DEFAULTS.put("decisionLogFiles", "8");
    DEFAULTS.put("priors", null);
    DEFAULTS.put("python", null);
    DEFAULTS.put("standIn", "strict_fair");
    DEFAULTS.put("autoEvery", "10min");
    DEFAULTS.put("coordinator", null);
    DEFAULTS.put("coordinatorSecretFile", null);
    DEFAULTS.put("coordinatorTls", "false");
    DEFAULTS.put("coordinatorPatience", "30s");
    DEFAULTS.put("queue", "");
    DEFAULTS.put("weight", "1");
    DEFAULTS.put("pools", KEEP);
    DEFAULTS.put("maxSlotsPerJob", null);
    DEFAULTS.put("maxSlotsPerUser", null);
    DEFAULTS.put("maxSlotsPerGroup", null);
    DEFAULTS.put("maxSlotsPerPool", null);
    DEFAULTS.put("maxJobs", null);
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
  private static final List<String> KEPT = Arrays.asList("metricsPort");
  private static final List<String> NAMED_KINDS = Arrays.asList("user", "group", "pool");

  final String policy;
  final String mode;
  final long lapseMs;
  final long holdMs;
  final long starveMs;
  final long idleMs;
  final long autoEveryMs;
  final long decisionMs;
  final int failures;
  /** -1: none; 0: any that is free */
  final int metricsPort;
  /** null where not set, as the next ones */
  final String parameters;
  final String decisionLog;
  final int decisionLogBytes;
  final int decisionLogFiles;
  final String priors;
  final String python;
  /** host and port of what divides the cluster; null: nothing does, as the next one */
  final String coordinator;
  final String coordinatorSecretFile;
  final boolean isCoordinatorTls;
  final long coordinatorPatienceMs;
  final String queue;
  final double weight;
  /** whether pools with a weight or minShare of their own get their slots first */
  final boolean arePoolsKept;
  final Map<String, Integer> caps = new TreeMap<>();
  /** jobs that run at once; `Plan.NO_LIMIT`: any number */
  final int maxJobs;
  /** the driver's own Python answers, not a process of `python` */
  final boolean isInDriver;
  /** the policy is an object of the driver, whatever its name */
  private final boolean isGuest;
  /** decides while a policy in Python does not */
  final String standIn;
  private final Map<String, String> values;

  /** A driver's settings as they were given, without the prefix. */
  static Map<String, String> given(SparkConf conf) {
    Map<String, String> given = new LinkedHashMap<>();
    for (Tuple2<String, String> setting : conf.getAll()) {
      if (setting._1().startsWith(PREFIX)) {
        given.put(setting._1().substring(PREFIX.length()), setting._2());
      }
    }
    return given;
  }

  /** Whether the application is to stop where `fault` keeps the policy from deciding. */
  static boolean isStop(Map<String, String> given, Throwable fault) {
    String required = given.getOrDefault(REQUIRED, CAPS);
    if (required.equals(CAPS)) {
      return fault instanceof SettingsError && ((SettingsError) fault).isOfCap;
    }
    return !required.equals("false"); // also a value that cannot be read
  }

  /** Whether it is to stop where caps that were given do not hold. */
  static boolean areCapsRequired(Map<String, String> given) {
    return !given.getOrDefault(REQUIRED, CAPS).equals("false");
  }

  /** Whether a cap was given, readable or not. */
  static boolean hasCaps(Map<String, String> given) {
    return given.keySet().stream().anyMatch(Settings::isCap);
  }

  private static boolean isCap(String name) {
    return EACH.containsKey(name) || name.startsWith(ONE);
  }

  /**
   * Settings with caps beside the others.
   *
   * @throws SettingsError one of `caps` is none.
   */
  static Map<String, String> withCaps(Map<String, String> settings, Map<String, String> caps) {
    Map<String, String> all = new LinkedHashMap<>(settings);
    for (Map.Entry<String, String> cap : caps.entrySet()) {
      String name = cap.getKey();
      if (DEFAULTS.containsKey(name) && !isCap(name) && !name.equals(MAX_JOBS)) {
        throw new SettingsError(cap.getKey() + " is no cap; there are " + EACH.keySet());
      }
      all.put(cap.getKey(), cap.getValue());
    }
    return all;
  }

  /** Spark's own order under the caps that can be read, whatever is wrong with other settings. */
  static Settings capsOnly(Map<String, String> given) {
    Map<String, String> kept = new LinkedHashMap<>();
    kept.put("policy", SPARK);
    boolean isShadow = "shadow".equals(given.get("mode"));
    if (isShadow) {
      kept.put("mode", "shadow");
    }
    for (Map.Entry<String, String> setting : given.entrySet()) {
      String name = setting.getKey();
      if ((isCap(name) && !isShadow || KEPT.contains(name)) && isUsable(setting)) {
        kept.put(name, setting.getValue());
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
   * Check settings of an application.
   *
   * @throws SettingsError a setting is unknown, or its value not allowed.
   */
  Settings(Map<String, String> given) {
    this(given, false, false);
  }

  /**
   * Check settings of a driver that attaches by itself.
   *
   * @param isGuest the policy is an object of this driver, whatever its name.
   * @throws SettingsError as above.
   */
  static Settings ofDriver(Map<String, String> given, boolean isGuest) {
    return new Settings(given, true, isGuest);
  }

  private Settings(Map<String, String> given, boolean isInDriver, boolean isGuest) {
    this.isInDriver = isInDriver;
    this.isGuest = isGuest;
    values = new HashMap<>(DEFAULTS);
    for (Map.Entry<String, String> setting : given.entrySet()) {
      if (setting.getKey().startsWith(ONE)) {
        addNamedCap(setting.getKey(), setting.getValue());
      } else if (!DEFAULTS.containsKey(setting.getKey())) {
        throw noSuch(setting.getKey());
      } else {
        values.put(setting.getKey(), setting.getValue());
      }
    }
    for (Map.Entry<String, String> each : EACH.entrySet()) {
      if (values.get(each.getKey()) != null) {
        caps.put(each.getValue(), slots(each.getKey(), values.get(each.getKey())));
      }
    }
    String jobs = values.get(MAX_JOBS);
    maxJobs =
        jobs == null
            ? Plan.NO_LIMIT : wholeNumber(MAX_JOBS, jobs, "jobs", 1, Integer.MAX_VALUE, true);
    policy = values.get("policy");
    mode = oneOf("mode", MODES);
    if (hasMaxJobs() && !mode.equals("exact")) {
      throw new SettingsError(
          PREFIX + "mode: '" + mode + "' holds up no job, so " + MAX_JOBS + " " + jobs
              + " would not hold", true);
    }
    // Before any setting that caps do not need: what is wrong there must not let caps go.
    if (isShadow() && !caps.isEmpty()) {
      throw new SettingsError(
          PREFIX + "mode: 'shadow' changes nothing, so these caps would not hold: " + caps, true);
    }
    oneOf(REQUIRED, REQUIRED_VALUES);
    lapseMs = duration("lapse");
    holdMs = duration("hold");
    starveMs = duration("starve");
    idleMs = duration("idle");
    autoEveryMs = duration("autoEvery");
    decisionMs = duration("decision");
    failures = count("failures", 1);
    String port = values.get("metricsPort");
    metricsPort =
        port == null ? -1 : wholeNumber("metricsPort", port, "ports", 0, MAX_PORT, false);
    decisionLogBytes = count("decisionLogBytes", 1);
    decisionLogFiles = count("decisionLogFiles", 2);
    parameters = values.get("parameters");
    decisionLog = values.get("decisionLog");
    priors = values.get("priors");
    python = values.get("python");
    standIn = oneOf("standIn", Policies.NAMES);
    coordinator = values.get("coordinator");
    coordinatorSecretFile = values.get("coordinatorSecretFile");
    isCoordinatorTls = values.get("coordinatorTls").equals("true");
    coordinatorPatienceMs = duration("coordinatorPatience");
    queue = values.get("queue");
    weight = weight();
    // soft mode sets weights and minShares itself
    arePoolsKept = oneOf("pools", POOLS).equals(KEEP) && !isSoft();
    checkCoordinator();
    checkWorker();
  }

  private void addNamedCap(String key, String value) {
    String[] parts = key.split("\\.", 3);
    if (parts.length < 3 || !NAMED_KINDS.contains(parts[1]) || parts[2].isEmpty()) {
      throw noSuch(key);
    }
    caps.put(parts[1] + " " + parts[2], slots(key, value));
  }

  /** There is no such setting; the nearest name that there is. */
  private static SettingsError noSuch(String key) {
    List<String> names = new ArrayList<>(DEFAULTS.keySet());
    String[] parts = key.split("\\.", 3);
    for (String kind : NAMED_KINDS) {
      String named = parts.length == 1 ? "" : parts[parts.length - 1];
      names.add(ONE + kind + "." + (named.isEmpty() ? "NAME" : named));
    }
    LevenshteinDistance distance = LevenshteinDistance.getDefaultInstance();
    String given = key.toLowerCase(Locale.ROOT); // another case of a letter is the same letter
    String nearest =
        Collections.min(
            names,
            Comparator.comparingInt(name -> distance.apply(given, name.toLowerCase(Locale.ROOT))));
    return new SettingsError(
        PREFIX + key + ": no such setting; the nearest is " + PREFIX + nearest, true);
  }

  private static int slots(String key, String value) {
    return wholeNumber(key, value, "slots", 1, Integer.MAX_VALUE, true);
  }

  private int count(String key, int least) {
    return wholeNumber(key, values.get(key), "counts", least, Integer.MAX_VALUE, false);
  }

  private static int wholeNumber(
      String key, String value, String what, int least, int most, boolean isOfCap) {
    int number = -1;
    try {
      number = Integer.parseInt(value.trim());
    } catch (NumberFormatException other) {
      // refused below
    }
    if (number < least || number > most) {
      String range = "from " + least + (most == Integer.MAX_VALUE ? " on" : " to " + most);
      throw new SettingsError(
          PREFIX + key + ": '" + value + "', " + what + " are whole numbers " + range, isOfCap);
    }
    return number;
  }

  private long duration(String key) {
    String value = values.get(key);
    long ms;
    try {
      ms = JavaUtils.timeStringAsMs(value);
    } catch (RuntimeException error) {
      throw new SettingsError(
          PREFIX + key + ": '" + value + "' is no time such as 100ms, 2s or 1min");
    }
    List<Integer> bounds = TIMES_MS.get(key);
    if (ms < bounds.get(0) || ms > bounds.get(1)) {
      throw new SettingsError(
          PREFIX + key + ": '" + value + "' is " + ms + " ms: from " + bounds.get(0) + " to "
              + bounds.get(1) + " ms are allowed, and a number without a unit is milliseconds");
    }
    return ms;
  }

  private void checkWorker() {
    if (!isInside() && python == null && !isInDriver) {
      throw new SettingsError(
          PREFIX + "policy: '" + policy + "' needs " + PREFIX + "python; without it there are "
              + SPARK + ", " + String.join(", ", Policies.NAMES) + " and model files");
    }
    if (isAuto() && isSoft()) {
      throw new SettingsError(
          PREFIX + "policy: 'auto' needs mode exact or shadow, as shares of pools cannot stand back");
    }
    if (isSoft() && !caps.isEmpty()) {
      throw new SettingsError(
          PREFIX + "mode: 'soft' sets shares of pools, which are no caps; there are " + caps);
    }
    if (priors != null && python == null) {
      throw new SettingsError(PREFIX + "priors needs " + PREFIX + "python, which reads the trace");
    }
    if (isSparkOrder() && (priors != null || decisionLog != null)) {
      throw new SettingsError(
          PREFIX + (priors == null ? "decisionLog" : "priors") + " needs a policy other than "
              + SPARK);
    }
  }

  private String oneOf(String key, Collection<String> allowed) {
    String value = values.get(key);
    if (!allowed.contains(value)) {
      throw new SettingsError(
          PREFIX + key + ": '" + value + "', there are " + String.join(", ", allowed));
    }
    return value;
  }

  private double weight() {
    try {
      double weight = Double.parseDouble(values.get("weight").trim());
      if (weight >= WEIGHTS.get(0) && weight <= WEIGHTS.get(1)) {
        return weight;
      }
    } catch (NumberFormatException other) {
      // refused below
    }
    throw new SettingsError(
        PREFIX + "weight: '" + values.get("weight") + "', a number from 1e-6 to 1e6 is needed");
  }

  private void checkCoordinator() {
    if (coordinator == null) {
      return;
    }
    if (!coordinator.matches(".+:[0-9]{1,5}")) {
      throw new SettingsError(PREFIX + "coordinator: '" + coordinator + "', HOST:PORT is needed");
    }
    if (coordinatorSecretFile == null) {
      throw new SettingsError(PREFIX + "coordinator needs " + PREFIX + "coordinatorSecretFile");
    }
    if (isInDriver || isShadow()) {
      throw new SettingsError(
          PREFIX + "coordinator needs the plugin, and mode exact or soft: shadow changes nothing");
    }
  }

  /** Whether only so many jobs may run at once. */
  boolean hasMaxJobs() {
    return maxJobs != Plan.NO_LIMIT;
  }

  boolean isSoft() {
    return mode.equals("soft");
  }

  boolean isShadow() {
    return mode.equals("shadow");
  }

  /** Whether order is left to Spark. */
  boolean isSparkOrder() {
    return policy.equals(SPARK) && !isInDriver;
  }

  /** Whether the best of several policies is looked for. */
  boolean isAuto() {
    return policy.equals(AUTO) && !isGuest;
  }

  /** Whether the policy decides inside the JVM. */
  boolean isInside() {
    return isSparkOrder() || (!isGuest && Policies.isInside(policy));
  }

  /** Whether Python is asked for anything: to decide, to choose, or to read earlier runs. */
  boolean needsPython() {
    return !isInside() || priors != null;
  }

  @Override
  public String toString() {
    String bounds = caps.isEmpty() ? "" : ", caps " + caps;
    String jobs = hasMaxJobs() ? ", " + boundOnJobs() : "";
    return "policy " + policy + ", mode " + mode + bounds + jobs;
  }

  /** The bound on jobs, which there is, in words. */
  String boundOnJobs() {
    return MAX_JOBS + " " + maxJobs;
  }
}
