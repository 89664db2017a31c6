package decima.spark;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** All task sets of a session at one instant, and the events since the last report. */
public final class Report {
  /** since the epoch */
  public long timeMs;
  /** tasks that can run at once */
  public int slots;
  public boolean attached = true;
  /** the plan is suspended, because the planner was silent for too long */
  public boolean lapsed;
  /** events lost so far because they came faster than they were read */
  public long dropped;
  /** for how long slots have stood idle beside tasks that the plan in force kept from starting */
  public long idleMs;
  /** how many did so all the time since the last report */
  public int idleSlots;
  public List<TaskSet> sets = new ArrayList<>();
  /** in the order in which they happened */
  public List<Event> events = new ArrayList<>();
  public List<Measured> measured = new ArrayList<>();
  /** by job: the caps that it is under, and how many slots each allows */
  public Map<String, Map<String, Integer>> caps = Collections.emptyMap();
  /**
   * jobs that may not start yet, as too many run, the first submitted first: none of their task sets
   * is in `sets`
   */
  public Set<String> waitingJobs = Collections.emptySet();
  /** task sets of those, where a place is free that several of them wait for; else none */
  public List<TaskSet> waitingSets = new ArrayList<>();

  /** Slots with a task. */
  public int running() {
    return sets.stream().mapToInt(set -> set.running).sum();
  }

  /** Whether a task waits for a slot. */
  public boolean hasWaitingTasks() {
    return sets.stream().anyMatch(set -> set.waiting() > 0);
  }

  /** One attempt of a stage that the scheduler holds tasks of. */
  public static final class TaskSet {
    public int stage;
    public int attempt;
    public String job;
    public int numTasks;
    public int successful;
    public int running;
    /** it was cancelled, or another attempt replaces it: what runs ends, and nothing starts */
    public boolean isZombie;
    /** null: Spark's scheduler is FIFO, or pools are ignored */
    public PoolInfo pool;

    /** Name of the group that its pool belongs to. */
    public String group() {
      return pool != null && pool.hasSettings() ? pool.name : PoolCounts.OTHERS;
    }

    /** Tasks that no slot runs and that have not succeeded, but will start. */
    public int waiting() {
      return isZombie ? 0 : Math.max(0, numTasks - successful - running);
    }
  }

  /** A pool of Spark's FAIR scheduler. */
  public static final class PoolInfo {
    public String name;
    public int weight;
    public int minShare;

    /** Whether it has a weight or a minShare: a pool that Spark made for a job has none. */
    public boolean hasSettings() {
      return hasSettings(weight, minShare);
    }

    static boolean hasSettings(int weight, int minShare) {
      return weight != 1 || minShare > 0;
    }
  }

  /** A Spark job began or ended, or a stage ended. */
  public static final class Event {
    public enum Kind {
      JOB_START,
      JOB_END,
      STAGE_END
    }

    public Kind kind;
    /** of the Spark job or the stage */
    public int id;
    /** of a Spark job, since the epoch */
    public long timeMs;
    /** of a stage */
    public boolean succeeded;
    /** of a job's start: the job that the Spark job is part of */
    public String job;
    /** of a job's start: the properties that name it */
    public Map<String, String> properties;
    /** of a job's start, whether or not they will run */
    public List<StageInfo> stages;

    public Event() {}

    Event(Kind kind, int id) {
      this.kind = kind;
      this.id = id;
    }
  }

  /** A stage as a Spark job lists it when it begins. */
  public static final class StageInfo {
    public int stage;
    public int numTasks;
    public List<Integer> parents;
    /** sorted; the same for a skipped stage and the one that ran */
    public List<Integer> rdds;
  }

  /** Tasks of a stage that succeeded; there may be thousands between two reports. */
  public static final class Measured {
    public int stage;
    public long tasks;
    public long totalMs;
    /** since the epoch */
    public long firstLaunchMs = Long.MAX_VALUE;
    public long lastFinishMs;

    public Measured() {}

    Measured(int stage) {
      this.stage = stage;
    }

    void add(long launchMs, long finishMs) {
      tasks += 1;
      totalMs += Math.max(0L, finishMs - launchMs);
      firstLaunchMs = Math.min(firstLaunchMs, launchMs);
      lastFinishMs = Math.max(lastFinishMs, finishMs);
    }
  }
}
