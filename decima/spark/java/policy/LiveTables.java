package decima.policy;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableSet;
import java.util.stream.Collectors;

/** The jobs that run now as tables; made anew for each plan. */
final class LiveTables extends Tables {
  private static final double INFLATION_A_SLOT = 0.01;
  private static final double MOST_INFLATION = 0.94;
  private static final int UNROLLED = 8;
  private static final int BLOCK = 128;

  final List<LiveJob> jobs;
  /** (S,) the stages by row */
  private final List<LiveJob.Stage> stages = new ArrayList<>();
  private final Map<String, Integer> lostSlots;

  /**
   * The tables of a session.
   *
   * @param cache the graphs of the plan before; they are brought up to date.
   * @return null if there is no job or no slot at all.
   */
  static LiveTables of(LiveJobs live, Graphs.Cache cache) {
    List<LiveJob> jobs = live.active();
    int slots = slots(live);
    return jobs.isEmpty() || slots < 1 ? null : of(live, jobs, slots, cache);
  }

  /** The same for an application that may hold no slot at all; null if there is no job. */
  static LiveTables ofApplication(LiveJobs live, Graphs.Cache cache) {
    List<LiveJob> jobs = live.active();
    return jobs.isEmpty() ? null : of(live, jobs, live.slots, cache);
  }

  /** The same for some of the jobs, as if they had a slot at least. */
  static LiveTables of(LiveJobs live, List<LiveJob> jobs, int slots, Graphs.Cache cache) {
    List<NavigableSet<Integer>> shown =
        jobs.stream().map(LiveJob::shownRows).collect(Collectors.toList());
    int[] firstStage = new int[jobs.size() + 1];
    for (int job = 0; job < jobs.size(); job++) {
      firstStage[job + 1] = firstStage[job] + shown.get(job).size();
    }
    return new LiveTables(live, jobs, shown, firstStage, Math.max(1, slots), cache);
  }

  /** Slots that plans may give away: not those of tasks whose results are not needed any more. */
  static int slots(LiveJobs live) {
    return live.slots - live.lostSlots.values().stream().mapToInt(Integer::intValue).sum();
  }

  private LiveTables(
      LiveJobs live,
      List<LiveJob> jobs,
      List<NavigableSet<Integer>> shown,
      int[] firstStage,
      int slots,
      Graphs.Cache cache) {
    super(firstStage);
    this.jobs = jobs;
    this.slots = slots;
    lostSlots = live.lostSlots;
    long originMs = jobs.get(0).arrivalMs;
    timeMs = live.timeMs - originMs;
    lastArrivalMs = live.lastArrivalMs - originMs;
    meanGapMs = live.meanGapMs();
    typicalMs = live.typicalMs();
    inflation = Math.min(INFLATION_A_SLOT * slots, MOST_INFLATION);
    for (int job = 0; job < jobs.size(); job++) {
      arrivalMs[job] = jobs.get(job).arrivalMs - originMs;
      fill(job, shown.get(job), live.durations);
    }
    graphs = cache.of(live, jobs, shown, this);
    for (int place = graphs.order.length - 1; place >= 0; place--) {
      int row = graphs.order[place];
      for (int edge = graphs.firstChild[row]; edge < graphs.firstChild[row + 1]; edge++) {
        int child = graphs.children[edge];
        criticalPathMs[row] = Math.max(criticalPathMs[row], criticalPathMs[child]);
      }
      criticalPathMs[row] += meanMs[row];
    }
    fillCaps(live.caps);
  }

  private void fill(int job, NavigableSet<Integer> shown, Durations durations) {
    double[] allMs = new double[shown.size()];
    double[] leftMs = new double[shown.size()];
    int row = firstStage[job];
    for (int number : shown) {
      LiveJob.Stage stage = jobs.get(job).stages.get(number);
      stages.add(stage);
      numTasks[row] = stage.numTasks;
      launched[row] = stage.launched();
      finished[row] = stage.finished();
      runnable[row] = stage.isSubmitted || stage.isDone;
      meanMs[row] = durations.meanMs(stage);
      allMs[row - firstStage[job]] = numTasks[row] * meanMs[row];
      leftMs[row - firstStage[job]] = (numTasks[row] - launched[row]) * meanMs[row];
      row += 1;
    }
    workMs[job] = sum(allMs);
    remainingMs[job] = sum(leftMs);
  }

  /** As numpy's `add.reduceat` of one run, so that ties are ties in Python, too. */
  private static double sum(double[] values) {
    return values.length == 1 ? values[0] : values[0] + pairwise(values, 1, values.length - 1);
  }

  private static double pairwise(double[] values, int first, int count) {
    if (count > BLOCK) {
      int half = count / 2;
      half -= half % UNROLLED;
      return pairwise(values, first, half) + pairwise(values, first + half, count - half);
    }
    double total = 0.0;
    int index = 0;
    if (count >= UNROLLED) {
      double[] part = new double[UNROLLED];
      for (; index < count - count % UNROLLED; index++) {
        part[index % UNROLLED] += values[first + index];
      }
      total = ((part[0] + part[1]) + (part[2] + part[3]))
              + ((part[4] + part[5]) + (part[6] + part[7]));
    }
    for (; index < count; index++) {
      total += values[first + index];
    }
    return total;
  }

  private void fillCaps(Map<String, Map<String, Integer>> capsOfJob) {
    Map<String, Integer> index = new LinkedHashMap<>();
    List<Integer> most = new ArrayList<>();
    for (int job = 0; job < jobs.size(); job++) {
      Map<String, Integer> given =
          capsOfJob.getOrDefault(jobs.get(job).key, Collections.emptyMap());
      given.forEach(
          (cap, slots) -> {
            if (index.putIfAbsent(cap, index.size()) == null) {
              most.add(slots);
            }
          });
      caps[job] = given.keySet().stream().mapToInt(index::get).toArray();
    }
    capacity = most.stream().mapToInt(Integer::intValue).toArray();
  }

  /** By job: the limit that the round has given it; what it holds for nothing counts too. */
  Map<String, Integer> limits(Round round) {
    Map<String, Integer> limits = new LinkedHashMap<>();
    for (int job = 0; job < jobs.size(); job++) {
      if (round.limit[job] > 0) {
        String key = jobs.get(job).key;
        limits.put(key, round.limit[job] + lostSlots.getOrDefault(key, 0));
      }
    }
    return limits;
  }

  /** Slots that tasks of these jobs hold for nothing. */
  int lost() {
    return jobs.stream().mapToInt(job -> lostSlots.getOrDefault(job.key, 0)).sum();
  }

  /** Spark's ids of the stages in these rows. */
  List<Integer> sparkStages(int[] rows) {
    List<Integer> ids = new ArrayList<>();
    for (int row : rows) {
      ids.add(stages.get(row).sparkStage);
    }
    return ids;
  }

  /** Spark's ids of all stages that have a task to start. */
  List<Integer> waitingStages() {
    List<Integer> ids = new ArrayList<>();
    for (LiveJob.Stage stage : stages) {
      if (stage.isSubmitted && stage.launched() < stage.numTasks) {
        ids.add(stage.sparkStage);
      }
    }
    return ids;
  }
}
