package decima.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.scheduler.SparkListenerEvent;

/**
 * At most so many jobs run at once. A job beyond them waits and starts no task; one that runs is never
 * held up again. Where several wait for a free place, the order in force decides: the policy is asked
 * (`give`), or Spark's FAIR; the first submitted gets the place if no answer comes in time.
 *
 * <p>A job has its place from its first task set until its end: of a SQL execution until Spark says
 * so, of a Spark job until that ends, of a job group until it has had nothing to do for a while. One
 * that holds no task set for too long gives its place away, as it may wait for a job that waits here;
 * it goes on beside the others.
 */
final class Admission {
  private static final String SQL = "sql ";
  private static final String SQL_END = "SparkListenerSQLExecutionEnd";
  /** a job without an unfinished Spark job may go on for so long: its driver prepares the next one */
  private static final long QUIET_NS = 500_000_000L;
  /** a job that held no task set for a day has ended, and its event was lost */
  private static final long LOST_NS = 86_400_000_000_000L;

  /** What a job has from its first task set on. */
  static final class Place {
    /** its Spark jobs that had a task set and have not ended */
    private final Set<Integer> sparkJobs = new HashSet<>();
    private long seenNs = System.nanoTime();
    private boolean isGivenAway = false;
    volatile boolean isAdmitted = false;
    volatile long admittedNs = 0;
  }

  private final Control control;
  private int most = Plan.NO_LIMIT;
  private long patienceNs = LOST_NS;
  /** by job, in the order of their first task sets */
  private final Map<String, Place> places = new LinkedHashMap<>();
  /** by Spark job */
  private final Map<Integer, String> jobOf = new HashMap<>();
  /** since when several jobs have waited for a free place, which is to be given; 0: none is */
  private long undecidedNs = 0;

  Admission(Control control) {
    this.control = control;
  }

  /**
   * @param maxJobs that run at once.
   * @param patienceMs a job that holds no task set for so long gives its place away.
   */
  synchronized void bound(int maxJobs, long patienceMs) {
    most = maxJobs;
    patienceNs = patienceMs * 1_000_000L;
  }

  /** The place of a task set's job; under the scheduler's lock. */
  synchronized Place enter(String job, int sparkJob) {
    Place place = placeOf(job, sparkJob);
    place.seenNs = System.nanoTime();
    place.isGivenAway = false;
    admit(withTasks(job), null);
    return place;
  }

  /** A job that has begun before the bound runs on. */
  synchronized void adopt(String job, int sparkJob) {
    placeOf(job, sparkJob).isAdmitted = true;
  }

  private Place placeOf(String job, int sparkJob) {
    Place place = places.computeIfAbsent(job, name -> new Place());
    place.sparkJobs.add(sparkJob);
    jobOf.put(sparkJob, job);
    return place;
  }

  void noteEnd(int sparkJob) {
    synchronized (this) {
      String job = jobOf.remove(sparkJob);
      Place place = places.get(job);
      if (place == null) {
        return;
      }
      place.sparkJobs.remove(sparkJob);
      place.seenNs = System.nanoTime();
      if (!job.equals(Owners.jobOf(null, sparkJob))) {
        return; // more may follow
      }
      places.remove(job);
    }
    control.letWaitingStart();
  }

  /** An event that Spark's core does not know. */
  void note(SparkListenerEvent event) throws Exception {
    if (!event.getClass().getSimpleName().equals(SQL_END)) {
      return;
    }
    synchronized (this) {
      places.remove(SQL + Fields.call(event, "executionId"));
    }
    control.letWaitingStart();
  }

  /** Find out which jobs are over or give their places away, and admit those that are next. */
  void look() {
    boolean isAny;
    synchronized (this) {
      Set<String> busy = withTasks(null);
      long nowNs = System.nanoTime();
      places.entrySet().removeIf(entry -> isOver(entry.getKey(), entry.getValue(), busy, nowNs));
      isAny = admit(busy, null);
    }
    while (control.isSparkOrder && isUndecided()) {
      // The scheduler's lock comes before this object's, as in `enter`.
      String first = control.firstInSparkOrder();
      synchronized (this) {
        isAny |= admit(withTasks(null), first);
      }
    }
    if (isAny) {
      control.events.touch();
      control.revive();
    }
  }

  private boolean isOver(String job, Place place, Set<String> busy, long nowNs) {
    if (busy.contains(job)) {
      place.seenNs = nowNs;
      place.isGivenAway = false;
      return false;
    }
    long idleNs = nowNs - place.seenNs;
    if (place.sparkJobs.isEmpty() && !job.startsWith(SQL)) {
      return idleNs > QUIET_NS;
    }
    place.isGivenAway = idleNs > patienceNs;
    return idleNs > LOST_NS;
  }

  /** Whether several jobs wait for a free place, and an answer is awaited. */
  synchronized boolean isUndecided() {
    return undecidedNs != 0;
  }

  /** Give the free place to this job, or to the first submitted if it does not wait any more. */
  void give(String job) {
    synchronized (this) {
      if (!isUndecided()) {
        return; // the answer is late
      }
      admit(withTasks(null), job);
    }
    control.events.touch();
    control.revive();
  }

  /**
   * Admit jobs while places are free, up to a place that several wait for, unless its time is over.
   *
   * @param chosen gets the first of these places, if it waits, else the first submitted; null: nobody
   *     has chosen.
   * @return whether there was one.
   */
  private boolean admit(Set<String> busy, String chosen) {
    boolean isUnbounded = control.isUnbounded();
    long running = places.values().stream().filter(one -> one.isAdmitted && !one.isGivenAway).count();
    List<String> waiting = new ArrayList<>(waiting());
    waiting.removeIf(job -> !isUnbounded && !busy.contains(job));
    boolean isAny = false;
    boolean isChosen = chosen != null;
    while (!waiting.isEmpty() && (running < most || isUnbounded)) {
      if (!isChosen && !isUnbounded && waiting.size() > 1 && !control.isOrderOfSubmission()) {
        long nowNs = System.nanoTime();
        if (undecidedNs == 0) {
          undecidedNs = nowNs;
          control.events.urge();
        }
        if (nowNs - undecidedNs < control.holdNs) {
          return isAny;
        }
      }
      String next = isChosen && waiting.contains(chosen) ? chosen : waiting.get(0);
      waiting.remove(next);
      isChosen = false;
      undecidedNs = 0;
      Place place = places.get(next);
      place.admittedNs = System.nanoTime();
      place.isAdmitted = true;
      running += 1;
      isAny = true;
    }
    undecidedNs = 0;
    return isAny;
  }

  /** Jobs with a task set that is not done, and `entering`, unless it is null. */
  private Set<String> withTasks(String entering) {
    Set<String> busy = new HashSet<>();
    for (Limited set : control.watched.values()) {
      if (!set.isZombie() || set.runningTasks() > 0) {
        busy.add(set.job);
      }
    }
    if (entering != null) {
      busy.add(entering);
    }
    return busy;
  }

  /** Jobs that wait for a place, the first submitted first. */
  synchronized Set<String> waiting() {
    Set<String> waiting = new LinkedHashSet<>();
    places.forEach(
        (job, place) -> {
          if (!place.isAdmitted) {
            waiting.add(job);
          }
        });
    return waiting;
  }
}
