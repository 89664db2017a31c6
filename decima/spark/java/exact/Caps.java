package decima.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The most slots that a job, or all jobs of a user, a group or a pool, may hold; whatever decides.
 *
 * <p>Each cap that a task set is under is a purse: "job sql 3", "user ann", "group etl", "pool web".
 */
final class Caps {
  /** of the application; else a client of Spark Connect is known by its tag */
  static final String USER = "decima.user";
  private static final String GROUP = "spark.jobGroup.id";
  private static final String POOL = "spark.scheduler.pool";
  private static final String TAGS = "spark.job.tags";
  private static final String[] CONNECT = {"_User_", "_Session_"};

  /** "user" -> cap of each, "user ann" -> of this one */
  private final Map most;
  /** by purse: slots that its task sets hold */
  private final ConcurrentHashMap held = new ConcurrentHashMap();
  /** by job: its purses */
  private final ConcurrentHashMap ofJob = new ConcurrentHashMap();

  /** @param most by "job", "user", "group" or "pool", and by such a word, a blank and a name. */
  Caps(Map most) {
    this.most = new HashMap(most);
  }

  /** The purses of a task set, and note them as its job's. */
  String[] pursesOf(Properties properties, String job) {
    ArrayList found = new ArrayList();
    if (!most.isEmpty()) {
      addPurse(found, "job", job);
      addPurse(found, "user", userOf(properties));
      addPurse(found, "group", valueOf(properties, GROUP));
      addPurse(found, "pool", valueOf(properties, POOL));
    }
    String[] purses = (String[]) found.toArray(new String[0]);
    if (purses.length > 0) {
      ofJob.put(job, purses);
    }
    return purses;
  }

  private void addPurse(ArrayList found, String kind, String name) {
    String purse = kind + " " + name;
    if (name != null && (most.containsKey(kind) || most.containsKey(purse))) {
      found.add(purse);
    }
  }

  private static String valueOf(Properties properties, String name) {
    return properties == null ? null : properties.getProperty(name);
  }

  private static String userOf(Properties properties) {
    String own = valueOf(properties, USER);
    String tags = valueOf(properties, TAGS);
    if (own != null || tags == null) {
      return own;
    }
    int begin = tags.indexOf(CONNECT[0]);
    int end = tags.indexOf(CONNECT[1], begin);
    return begin < 0 || end < 0 ? null : tags.substring(begin + CONNECT[0].length(), end);
  }

  int capacity(String purse) {
    Object own = most.get(purse);
    Object kind = own == null ? most.get(purse.substring(0, purse.indexOf(' '))) : own;
    return ((Integer) kind).intValue();
  }

  private int heldBy(String purse) {
    AtomicInteger count = (AtomicInteger) held.get(purse);
    return count == null ? 0 : count.get();
  }

  /** Slots that the task set's caps leave it. */
  int room(Watched set) {
    int found = Control.NO_LIMIT;
    for (int index = 0; index < set.purses.length; index++) {
      String purse = set.purses[index];
      found = Math.min(found, capacity(purse) - heldBy(purse));
    }
    return Math.max(0, found);
  }

  /** Returns whether a cap is exceeded now. */
  boolean changeHeld(Watched set, int change) {
    boolean isOver = false;
    for (int index = 0; index < set.purses.length; index++) {
      String purse = set.purses[index];
      held.putIfAbsent(purse, new AtomicInteger());
      int now = ((AtomicInteger) held.get(purse)).addAndGet(change);
      isOver = isOver || now > capacity(purse);
    }
    return isOver;
  }

  /** Forget all others. */
  void retain(Set purses, Set jobs) {
    held.keySet().retainAll(purses);
    ofJob.keySet().retainAll(jobs);
  }

  Map held() {
    return held;
  }

  /** For those who plan: by job, its purses and their capacities. */
  LinkedHashMap told() {
    LinkedHashMap found = new LinkedHashMap();
    for (Iterator all = ofJob.entrySet().iterator(); all.hasNext(); ) {
      Map.Entry entry = (Map.Entry) all.next();
      String[] purses = (String[]) entry.getValue();
      LinkedHashMap own = new LinkedHashMap();
      for (int index = 0; index < purses.length; index++) {
        own.put(purses[index], Integer.valueOf(capacity(purses[index])));
      }
      found.put(entry.getKey(), own);
    }
    return found;
  }
}
