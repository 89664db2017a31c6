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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The most slots that a job, or all jobs of a user, a group or a pool, may hold; whatever decides.
 *
 * <p>Each cap that a task set is under is a purse: "job sql 3", "user ann", "group etl", "pool web".
 */
final class Caps {
  private static final String GROUP = "spark.jobGroup.id";
  private static final String POOL = "spark.scheduler.pool";
  /** an event that names a user is read within so long, or it was dropped */
  private static final long PATIENCE_NS = 1000000000L;
  private static final Logger LOG = LoggerFactory.getLogger("decima.spark.DecimaPlugin");

  /** "user" -> cap of each, "user ann" -> of this one */
  private final Map most;
  /** by purse: slots that its task sets hold */
  private final ConcurrentHashMap held = new ConcurrentHashMap();
  /** by job: its purses */
  private final ConcurrentHashMap ofJob = new ConcurrentHashMap();
  final Users users = new Users();
  /** whether users have caps */
  private boolean hasUsers = false;
  private boolean isWarned = false;

  /** @param most by "job", "user", "group" or "pool", and by such a word, a blank and a name. */
  Caps(Map most) {
    this.most = new HashMap(most);
    for (Iterator all = most.keySet().iterator(); all.hasNext(); ) {
      String cap = (String) all.next();
      hasUsers = hasUsers || cap.equals("user") || cap.startsWith("user ");
    }
  }

  /** Whether nobody has set a cap. */
  boolean isEmpty() {
    return most.isEmpty();
  }

  /** Find out which caps a task set is under; its user may not be known yet. */
  void take(Watched set) {
    Properties properties = propertiesOf(set);
    String user = hasUsers ? Users.named(properties) : null;
    set.isSettled = !hasUsers || user != null || set.isUnlimited;
    setPurses(set, properties, user);
  }

  /**
   * Whether the task set's user is known, or will not be. It waits for that: the event that names
   * the user was posted before its job's start, but may be read later than the job is submitted.
   */
  private synchronized boolean settle(Watched set) {
    if (set.isSettled) {
      return true;
    }
    Properties properties = propertiesOf(set);
    String group = properties.getProperty(GROUP);
    String user = group == null ? null : users.ofStatement(group);
    boolean isLate = System.nanoTime() - set.bornNs > PATIENCE_NS;
    if (user == null && !isLate && !users.hasStarted(set.manager.taskSet().priority())) {
      return false;
    }
    setPurses(set, properties, user);
    set.isSettled = true;
    if (user == null && !isWarned) {
      isWarned = true;
      LOG.warn(
          "a job came without a user ({}): caps of users do not hold for such jobs; set the local"
              + " property {}",
          set.job,
          Users.OWN);
    }
    return true;
  }

  private static Properties propertiesOf(Watched set) {
    Properties found = set.manager.taskSet().properties();
    return found == null ? new Properties() : found;
  }

  private void setPurses(Watched set, Properties properties, String user) {
    ArrayList found = new ArrayList();
    if (!most.isEmpty()) {
      addPurse(found, "job", set.job);
      addPurse(found, "user", user);
      addPurse(found, "group", properties.getProperty(GROUP));
      addPurse(found, "pool", properties.getProperty(POOL));
    }
    set.purses = (String[]) found.toArray(new String[0]);
    if (set.purses.length > 0) {
      ofJob.put(set.job, set.purses);
    }
  }

  private void addPurse(ArrayList found, String kind, String name) {
    String purse = kind + " " + name;
    if (name != null && (most.containsKey(kind) || most.containsKey(purse))) {
      found.add(purse);
    }
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
    if (!set.isSettled && !settle(set)) {
      return 0;
    }
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
