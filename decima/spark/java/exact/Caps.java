package decima.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
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
  private final Map most;
  /** by cap: slots that its task sets hold */
  private final ConcurrentHashMap held = new ConcurrentHashMap();
  /** by job: its caps */
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
    setCaps(set, properties, user);
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
    // Only a statement of a server has a group and no user: then an event names the user.
    boolean isKnown = user != null || group == null || users.isRead(set.manager.taskSet().priority());
    if (!isKnown && !isLate) {
      return false;
    }
    setCaps(set, properties, user);
    if (!isKnown) {
      addCapOfAnybody(set);
    }
    set.isSettled = true;
    if (user == null && !isWarned) {
      isWarned = true;
      LOG.warn(
          "a job came without a user ({}): {}; set the local property {}",
          set.job,
          isKnown
              ? "caps of users do not hold for such jobs"
              : "Spark did not tell in time whose it is, so the caps of all users hold for it",
          Users.OWN);
    }
    return true;
  }

  private static Properties propertiesOf(Watched set) {
    Properties found = set.manager.taskSet().properties();
    return found == null ? new Properties() : found;
  }

  private void setCaps(Watched set, Properties properties, String user) {
    ArrayList found = new ArrayList();
    if (!most.isEmpty()) {
      addCap(found, "job", set.job);
      addCap(found, "user", user);
      addCap(found, "group", properties.getProperty(GROUP));
      addCap(found, "pool", properties.getProperty(POOL));
    }
    set.caps = (String[]) found.toArray(new String[0]);
    if (set.caps.length > 0) {
      ofJob.put(set.job, set.caps);
    }
  }

  private void addCap(ArrayList found, String kind, String name) {
    String cap = kind + " " + name;
    if (name != null && (most.containsKey(kind) || most.containsKey(cap))) {
      found.add(cap);
    }
  }

  /** Nobody told whose the task set is: it may be anybody's. */
  private void addCapOfAnybody(Watched set) {
    ArrayList all = new ArrayList(Arrays.asList(set.caps));
    all.add(USER);
    set.caps = (String[]) all.toArray(new String[0]);
    ofJob.put(set.job, set.caps);
  }

  private static boolean isOfUser(Object cap) {
    return ((String) cap).startsWith(USER + " ");
  }

  /** Slots that such task sets hold together: as many as the least of users' caps allows. */
  private int capacityOfAnybody() {
    Object each = most.get(USER);
    int found = each == null ? Control.NO_LIMIT : ((Integer) each).intValue();
    for (Iterator all = most.keySet().iterator(); all.hasNext(); ) {
      String cap = (String) all.next();
      found = isOfUser(cap) ? Math.min(found, ((Integer) most.get(cap)).intValue()) : found;
    }
    return found;
  }

  /** Slots left to such task sets beside those that users hold. */
  private int roomOfAnybody() {
    int found = capacityOfAnybody() - heldBy(USER);
    for (Iterator all = held.keySet().iterator(); all.hasNext(); ) {
      String cap = (String) all.next();
      found = isOfUser(cap) ? Math.min(found, roomUnder(cap)) : found;
    }
    return found;
  }

  int capacity(String cap) {
    if (cap.equals(USER)) {
      return capacityOfAnybody();
    }
    Object own = most.get(cap);
    Object kind = own == null ? most.get(cap.substring(0, cap.indexOf(' '))) : own;
    return ((Integer) kind).intValue();
  }

  private int heldBy(String cap) {
    AtomicInteger count = (AtomicInteger) held.get(cap);
    return count == null ? 0 : count.get();
  }

  /** Slots that the task set's caps leave it. */
  int room(Watched set) {
    if (!set.isSettled && !settle(set)) {
      return 0;
    }
    int found = Control.NO_LIMIT;
    for (int index = 0; index < set.caps.length; index++) {
      String cap = set.caps[index];
      found = Math.min(found, cap.equals(USER) ? roomOfAnybody() : roomUnder(cap));
    }
    return Math.max(0, found);
  }

  /** What task sets hold whose user nobody knows counts for each user. */
  private int roomUnder(String cap) {
    return capacity(cap) - heldBy(cap) - (isOfUser(cap) ? heldBy(USER) : 0);
  }

  /** Count what task sets hold anew, by what Spark says of them; under the scheduler's lock. */
  void count(Collection watched) {
    held.clear();
    for (Iterator all = watched.iterator(); all.hasNext(); ) {
      Watched set = (Watched) all.next();
      changeHeld(set, set.manager.runningTasks());
    }
  }

  /** Returns whether a cap is exceeded now. */
  boolean changeHeld(Watched set, int change) {
    boolean isOver = false;
    for (int index = 0; index < set.caps.length; index++) {
      String cap = set.caps[index];
      held.putIfAbsent(cap, new AtomicInteger());
      int now = ((AtomicInteger) held.get(cap)).addAndGet(change);
      isOver = isOver || now > capacity(cap);
    }
    return isOver;
  }

  /** Forget all others. */
  void retain(Set caps, Set jobs) {
    held.keySet().retainAll(caps);
    ofJob.keySet().retainAll(jobs);
  }

  Map held() {
    return held;
  }

  /** For those who plan: by job, its caps and their capacities. */
  LinkedHashMap reported() {
    LinkedHashMap found = new LinkedHashMap();
    for (Iterator all = ofJob.entrySet().iterator(); all.hasNext(); ) {
      Map.Entry entry = (Map.Entry) all.next();
      String[] caps = (String[]) entry.getValue();
      LinkedHashMap own = new LinkedHashMap();
      for (int index = 0; index < caps.length; index++) {
        own.put(caps[index], Integer.valueOf(capacity(caps[index])));
      }
      found.put(entry.getKey(), own);
    }
    return found;
  }
}
