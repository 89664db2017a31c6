package decima.policy;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** All task sets of a session at one instant, and the events since the last report. */
public final class Report {
  /** since the epoch */
  public final long timeMs;
  /** tasks that can run at once */
  public final int slots;
  public final boolean attached;
  /** the plan is suspended, because nothing was heard of what plans for too long */
  public final boolean lapsed;
  /** events lost so far because they came faster than they were read */
  public final long dropped;
  /** for how long slots have stood idle beside tasks that the plan in force kept from starting */
  public final long idleMs;
  /** how many did so all the time since the last report */
  public final int idleSlots;
  public final List<TaskSet> sets = new ArrayList<>();
  /** each a letter and what belongs to it, in the order in which they happened */
  final List<List<?>> events = new ArrayList<>();
  final List<long[]> measured = new ArrayList<>();
  /** by job: the caps that it is under, and how many slots each allows */
  final Map<String, Map<String, Integer>> caps;

  /** @param message as `decima.spark.Session.report` makes it. */
  @SuppressWarnings("unchecked")
  public Report(Map<String, ?> message) {
    timeMs = number(message.get("time_ms"));
    slots = (int) number(message.get("slots"));
    attached = Boolean.TRUE.equals(message.get("attached"));
    lapsed = Boolean.TRUE.equals(message.get("lapsed"));
    dropped = message.get("dropped") == null ? 0 : number(message.get("dropped"));
    idleMs = number(message.get("idle_ms"));
    idleSlots = (int) number(message.get("idle_slots"));
    for (Object row : (List<?>) message.get("sets")) {
      sets.add(new TaskSet((List<?>) row));
    }
    for (Object event : (List<?>) message.get("events")) {
      events.add((List<?>) event);
    }
    for (Object row : (List<?>) message.get("measured")) {
      measured.add(numbers((List<?>) row));
    }
    Object found = message.get("caps");
    caps = found == null ? Collections.emptyMap() : (Map<String, Map<String, Integer>>) found;
  }

  static long number(Object value) {
    return ((Number) value).longValue();
  }

  static long[] numbers(List<?> values) {
    long[] found = new long[values.size()];
    for (int index = 0; index < found.length; index++) {
      found[index] = number(values.get(index));
    }
    return found;
  }

  /** Slots with a task. */
  public int running() {
    int found = 0;
    for (TaskSet one : sets) {
      found += one.running;
    }
    return found;
  }

  /** One attempt of a stage that the scheduler holds tasks of. */
  public static final class TaskSet {
    public final int stage;
    public final int attempt;
    public final String job;
    public final int numTasks;
    public final int successful;
    public final int running;
    /** it was cancelled, or another attempt replaces it: what runs ends, and nothing starts */
    public final boolean isZombie;
    /** null: pools have no meaning */
    final JobPool pool;

    private TaskSet(List<?> row) {
      stage = (int) number(row.get(0));
      attempt = (int) number(row.get(1));
      job = (String) row.get(2);
      numTasks = (int) number(row.get(3));
      successful = (int) number(row.get(4));
      running = (int) number(row.get(5));
      isZombie = Boolean.TRUE.equals(row.get(6));
      pool = row.size() > 7 ? JobPool.of(row.subList(7, 10)) : null;
    }

    /** Name of the group that its pool belongs to. */
    String group() {
      return pool != null && pool.hasOwn() ? pool.name : PoolGroup.OTHERS;
    }

    /** Tasks that no slot runs and that have not succeeded, but will start. */
    public int waiting() {
      return isZombie ? 0 : Math.max(0, numTasks - successful - running);
    }
  }
}
