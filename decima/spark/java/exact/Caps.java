package decima.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The most slots that a job, or all jobs of a user, a group or a pool, may hold under any plan.
 *
 * <p>A task set is under several caps: "job sql 3", "user ann", "group etl", "pool web".
 */
final class Caps {
  private static final String GROUP = "spark.jobGroup.id";
  private static final String POOL = "spark.scheduler.pool";
  private static final String USER = "user";
  /** an event that names a user is read within so long, or it was dropped */
  private static final long PATIENCE_NS = 1000000000L;
  private static final Logger LOG = LoggerFactory.getLogger("decima.spark.DecimaPlugin");

  /** "user" -> cap of each, "user ann" -> of this one */
  private final Map<String, Integer> most;
  /** by cap: slots that its task sets hold */
  private final ConcurrentHashMap<String, AtomicInteger> held = new ConcurrentHashMap<>();
  /** by job: its caps */
  private final ConcurrentHashMap<String, String[]> ofJob = new ConcurrentHashMap<>();
  final Owners owners = new Owners();
  /** whether users have caps */
  private final boolean hasUsers;
  private boolean isWarned = false;

  /** @param most by "job", "user", "group" or "pool", and by such a word, a blank and a name. */
  Caps(Map<String, Integer> most) {
    this.most = new HashMap<>(most);
    hasUsers = most.keySet().stream().anyMatch(cap -> cap.equals(USER) || isOfUser(cap));
  }

  /** Whether no cap is set. */
  boolean isEmpty() {
    return most.isEmpty();
  }

  /** Find out which caps a task set is under; its user may not be known yet. */
  void take(Limited set) {
    Properties properties = propertiesOf(set);
    String user = hasUsers ? Owners.named(properties) : null;
    set.isSettled = !hasUsers || user != null || set.isUnlimited;
    setCaps(set, properties, user);
  }

  /**
   * Whether the task set's user is known, or will not be. It waits for that: the event that names
   * the user was posted before its job's start, but may be read later than the job is submitted.
   */
  private synchronized boolean settle(Limited set) {
    if (set.isSettled) {
      return true;
    }
    Properties properties = propertiesOf(set);
    String group = properties.getProperty(GROUP);
    String user = group == null ? null : owners.ofStatement(group);
    boolean isLate = System.nanoTime() - set.bornNs > PATIENCE_NS;
    // Only a statement of a server has a group and no user: then an event names the user.
    boolean isKnown = user != null || group == null || owners.isRead(set.taskSet().priority());
    if (!isKnown && !isLate) {
      return false;
    }
    setCaps(set, properties, user);
    if (!isKnown) {
      // It may be any user's.
      String[] caps = Arrays.copyOf(set.caps, set.caps.length + 1);
      caps[caps.length - 1] = USER;
      set.caps = caps;
      ofJob.put(set.job, caps);
    }
    set.isSettled = true;
    if (user == null && !isWarned) {
      isWarned = true;
      LOG.warn(
          "a job came without a user ({}): {}; set the local property {}",
          set.job,
          isKnown
              ? "caps of users do not hold for such jobs"
              : "Spark did not name its user in time, so the caps of all users hold for it",
          Owners.OWN);
    }
    return true;
  }

  private static Properties propertiesOf(Limited set) {
    Properties properties = set.taskSet().properties();
    return properties == null ? new Properties() : properties;
  }

  private void setCaps(Limited set, Properties properties, String user) {
    List<String> caps = new ArrayList<>();
    if (!most.isEmpty()) {
      addCap(caps, "job", set.job);
      addCap(caps, "user", user);
      addCap(caps, "group", properties.getProperty(GROUP));
      addCap(caps, "pool", properties.getProperty(POOL));
    }
    set.caps = caps.toArray(new String[0]);
    if (set.caps.length > 0) {
      ofJob.put(set.job, set.caps);
    }
  }

  private void addCap(List<String> caps, String kind, String name) {
    String cap = kind + " " + name;
    if (name != null && (most.containsKey(kind) || most.containsKey(cap))) {
      caps.add(cap);
    }
  }

  private static boolean isOfUser(String cap) {
    return cap.startsWith(USER + " ");
  }

  /**
   * The most slots under a cap. "user" alone is the cap of task sets whose user is unknown: the least
   * of the users' caps.
   */
  int capacity(String cap) {
    if (!cap.equals(USER)) {
      Integer ofName = most.get(cap);
      return ofName == null ? most.get(cap.substring(0, cap.indexOf(' '))) : ofName;
    }
    int least = most.getOrDefault(USER, Plan.NO_LIMIT);
    for (Map.Entry<String, Integer> named : most.entrySet()) {
      least = isOfUser(named.getKey()) ? Math.min(least, named.getValue()) : least;
    }
    return least;
  }

  private int heldBy(String cap) {
    AtomicInteger count = held.get(cap);
    return count == null ? 0 : count.get();
  }

  /** Slots that the task set's caps leave it. */
  int room(Limited set) {
    if (!set.isSettled && !settle(set)) {
      return 0;
    }
    int room = Plan.NO_LIMIT;
    for (String cap : set.caps) {
      room = Math.min(room, roomUnder(cap));
      for (String other : cap.equals(USER) ? held.keySet() : Collections.<String>emptySet()) {
        room = isOfUser(other) ? Math.min(room, roomUnder(other)) : room;
      }
    }
    return Math.max(0, room);
  }

  /** A slot of a task set whose user is unknown counts for each user. */
  private int roomUnder(String cap) {
    return capacity(cap) - heldBy(cap) - (isOfUser(cap) ? heldBy(USER) : 0);
  }

  /** Count the slots of all task sets anew, from Spark's own counts; under the scheduler's lock. */
  void count(Collection<Limited> watched) {
    held.clear();
    for (Limited set : watched) {
      changeHeld(set, set.runningTasks());
    }
  }

  /** Returns whether a cap is exceeded now. */
  boolean changeHeld(Limited set, int change) {
    boolean isOver = false;
    for (String cap : set.caps) {
      int now = held.computeIfAbsent(cap, name -> new AtomicInteger()).addAndGet(change);
      isOver = isOver || now > capacity(cap);
    }
    return isOver;
  }

  /** Forget all others. */
  void retain(Set<String> caps, Set<String> jobs) {
    held.keySet().retainAll(caps);
    ofJob.keySet().retainAll(jobs);
  }

  /** By job, its caps and their capacities. */
  Map<String, Map<String, Integer>> reported() {
    Map<String, Map<String, Integer>> capsOfJob = new LinkedHashMap<>();
    for (Map.Entry<String, String[]> job : ofJob.entrySet()) {
      Map<String, Integer> capacities = new LinkedHashMap<>();
      for (String cap : job.getValue()) {
        capacities.put(cap, capacity(cap));
      }
      capsOfJob.put(job.getKey(), capacities);
    }
    return capsOfJob;
  }
}
