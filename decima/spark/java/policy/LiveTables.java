package decima.policy;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;

/** The jobs that run now in the tables that policies read; made anew for each plan. */
final class LiveTables {
  private static final double INFLATION_A_SLOT = 0.01;
  private static final double MOST_INFLATION = 0.94;

  final Tables tables;
  final List<LiveJob> jobs;
  final Allowances caps;
  /** (S,) the stages by row */
  private final List<LiveStage> stages = new ArrayList<>();
  private final Map<String, Integer> lostSlots;

  /**
   * The tables of a session.
   *
   * @param graphs those of the plan before; they are brought up to date.
   * @return null if there is no job or no slot at all.
   */
  static LiveTables of(LiveJobs live, LiveGraphs graphs) {
    List<LiveJob> jobs = live.active();
    int slots = slots(live);
    return jobs.isEmpty() || slots < 1 ? null : new LiveTables(live, jobs, slots, graphs);
  }

  /** The same for a group of pools, which has a slot at least. */
  static LiveTables of(LiveJobs live, PoolGroup group, LiveGraphs graphs) {
    return new LiveTables(live, group.jobs, Math.max(1, group.slots), graphs);
  }

  /** Slots that plans may give away: not those of tasks whose results are not needed any more. */
  static int slots(LiveJobs live) {
    return live.slots - live.lostSlots.values().stream().mapToInt(Integer::intValue).sum();
  }

  /** The same for an application that may hold no slot at all; null if there is no job. */
  static LiveTables ofApplication(LiveJobs live, LiveGraphs graphs) {
    List<LiveJob> jobs = live.active();
    return jobs.isEmpty() ? null : new LiveTables(live, jobs, Math.max(1, live.slots), graphs);
  }

  private LiveTables(LiveJobs live, List<LiveJob> jobs, int slots, LiveGraphs graphs) {
    this.jobs = jobs;
    lostSlots = live.lostSlots;
    List<NavigableSet<Integer>> shown = new ArrayList<>();
    int[] firstStage = new int[jobs.size() + 1];
    for (int job = 0; job < jobs.size(); job++) {
      shown.add(jobs.get(job).shownRows());
      firstStage[job + 1] = firstStage[job] + shown.get(job).size();
    }
    tables = new Tables(firstStage);
    long originMs = jobs.get(0).arrivalMs;
    tables.slots = slots;
    tables.timeMs = live.timeMs - originMs;
    tables.lastArrivalMs = live.lastArrivalMs - originMs;
    tables.meanGapMs = live.meanGapMs();
    tables.typicalMs = live.typicalMs();
    tables.inflation = Math.min(INFLATION_A_SLOT * slots, MOST_INFLATION);
    for (int job = 0; job < jobs.size(); job++) {
      tables.arrivalMs[job] = jobs.get(job).arrivalMs - originMs;
      fill(live, job, shown.get(job));
    }
    tables.graphs = graphs.of(live, jobs, shown, tables);
    caps = caps(live);
  }

  private void fill(LiveJobs live, int job, NavigableSet<Integer> shown) {
    LiveJob own = jobs.get(job);
    Map<Integer, Integer> rowOf = new HashMap<>();
    double[] allMs = new double[shown.size()];
    double[] leftMs = new double[shown.size()];
    int index = 0;
    for (int number : shown) {
      LiveStage stage = own.stages.get(number);
      int row = tables.firstStage[job] + index;
      rowOf.put(number, row);
      stages.add(stage);
      tables.numTasks[row] = stage.numTasks;
      tables.launched[row] = stage.launched();
      tables.finished[row] = stage.finished();
      tables.runnable[row] = stage.isSubmitted || stage.isDone;
      tables.meanMs[row] = live.durations.meanMs(own, stage);
      allMs[index] = tables.numTasks[row] * tables.meanMs[row];
      leftMs[index] = (tables.numTasks[row] - tables.launched[row]) * tables.meanMs[row];
      index += 1;
    }
    tables.workMs[job] = Sums.ofRun(allMs);
    tables.remainingMs[job] = Sums.ofRun(leftMs);
    fillPaths(own, shown, rowOf);
  }

  /** Longest paths, from the last stages back; not by recursion: graphs may be deep. */
  private void fillPaths(LiveJob own, Iterable<Integer> shown, Map<Integer, Integer> rowOf) {
    Map<Integer, Integer> missing = new HashMap<>();
    for (int number : shown) {
      for (int parent : own.stages.get(number).parents) {
        missing.merge(parent, 1, Integer::sum);
      }
    }
    ArrayDeque<Integer> ready = new ArrayDeque<>();
    for (int number : shown) {
      if (!missing.containsKey(number)) {
        ready.add(number);
      }
    }
    while (!ready.isEmpty()) {
      int number = ready.remove();
      int row = rowOf.get(number);
      tables.criticalPathMs[row] += tables.meanMs[row];
      for (int parent : own.stages.get(number).parents) {
        Integer parentRow = rowOf.get(parent);
        if (parentRow == null) {
          continue;
        }
        tables.criticalPathMs[parentRow] =
            Math.max(tables.criticalPathMs[parentRow], tables.criticalPathMs[row]);
        if (missing.merge(parent, -1, Integer::sum) == 0) {
          ready.add(parent);
        }
      }
    }
  }

  /** Caps of the jobs, numbered. */
  private Allowances caps(LiveJobs live) {
    Map<String, Integer> number = new HashMap<>();
    List<Integer> capacity = new ArrayList<>();
    int[][] ofJob = new int[jobs.size()][];
    for (int job = 0; job < jobs.size(); job++) {
      Map<String, Integer> own =
          live.caps.getOrDefault(jobs.get(job).key, Collections.emptyMap());
      ofJob[job] = new int[own.size()];
      int index = 0;
      for (Map.Entry<String, Integer> cap : own.entrySet()) {
        if (!number.containsKey(cap.getKey())) {
          number.put(cap.getKey(), capacity.size());
          capacity.add(cap.getValue());
        }
        ofJob[job][index++] = number.get(cap.getKey());
      }
    }
    int[] most = capacity.stream().mapToInt(Integer::intValue).toArray();
    return new Allowances(ofJob, most);
  }

  /** By job: the limit that the round has given it; what it holds for nothing counts too. */
  Map<String, Integer> limits(Round round) {
    Map<String, Integer> found = new LinkedHashMap<>();
    for (int job = 0; job < jobs.size(); job++) {
      if (round.limit(job) > 0) {
        String key = jobs.get(job).key;
        found.put(key, round.limit(job) + lostSlots.getOrDefault(key, 0));
      }
    }
    return found;
  }

  /** Slots that tasks of these jobs hold for nothing. */
  int lost() {
    return jobs.stream().mapToInt(job -> lostSlots.getOrDefault(job.key, 0)).sum();
  }

  /** Spark's ids of the stages in these rows. */
  List<Integer> sparkStages(int[] rows) {
    List<Integer> found = new ArrayList<>();
    for (int row : rows) {
      found.add(stages.get(row).sparkStage);
    }
    return found;
  }

  /** Spark's ids of all stages that have a task to start. */
  List<Integer> waitingStages() {
    List<Integer> found = new ArrayList<>();
    for (LiveStage stage : stages) {
      if (stage.isSubmitted && stage.launched() < stage.numTasks) {
        found.add(stage.sparkStage);
      }
    }
    return found;
  }
}
