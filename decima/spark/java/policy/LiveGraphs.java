package decima.policy;

import java.util.Collections;
import java.util.List;
import java.util.NavigableSet;

/** Keeps the graphs of a session from one plan to the next, until they change. */
public final class LiveGraphs {
  private static final double LEAST_MS = 1e-3;

  private Graphs graphs;
  private long version = -1;
  private int slots = 0;
  private List<LiveJob> jobs = Collections.emptyList();
  private List<NavigableSet<Integer>> shown = Collections.emptyList();

  /**
   * The graphs of the jobs in `tables`, whose other columns are filled.
   *
   * @param shown of each job, the rows that policies see.
   */
  Graphs of(
      LiveJobs live, List<LiveJob> jobs, List<NavigableSet<Integer>> shown, Tables tables) {
    boolean isKnown =
        version == live.version
            && slots == tables.slots
            && this.jobs.equals(jobs)
            && this.shown.equals(shown);
    if (!isKnown) {
      graphs = made(jobs, shown, tables);
      version = live.version;
      slots = tables.slots;
      this.jobs = jobs;
      this.shown = shown;
    }
    return graphs;
  }

  private static Graphs made(
      List<LiveJob> jobs, List<NavigableSet<Integer>> shown, Tables tables) {
    int[] firstChild = new int[tables.stages() + 1];
    int[][] parents = new int[tables.stages()][];
    for (int job = 0; job < jobs.size(); job++) {
      int[] rows = shown.get(job).stream().mapToInt(Integer::intValue).toArray();
      for (int index = 0; index < rows.length; index++) {
        int first = tables.firstStage[job];
        parents[first + index] =
            jobs.get(job).stages.get(rows[index]).parents.stream()
                .mapToInt(row -> java.util.Arrays.binarySearch(rows, row))
                .filter(found -> found >= 0)
                .map(found -> first + found)
                .toArray();
        for (int parent : parents[first + index]) {
          firstChild[parent + 1] += 1;
        }
      }
    }
    for (int row = 0; row < tables.stages(); row++) {
      firstChild[row + 1] += firstChild[row];
    }
    int[] place = firstChild.clone();
    int[] children = new int[firstChild[tables.stages()]];
    for (int row = 0; row < tables.stages(); row++) {
      for (int parent : parents[row]) {
        children[place[parent]++] = row;
      }
    }
    double workMs = 0.0;
    long tasks = 0;
    for (int row = 0; row < tables.stages(); row++) {
      workMs += tables.numTasks[row] * tables.meanMs[row];
      tasks += tables.numTasks[row];
    }
    return new Graphs(
        tables.firstStage,
        firstChild,
        children,
        Math.max(workMs / Math.max(1, tasks), LEAST_MS),
        Math.max(workMs / tables.jobs(), LEAST_MS));
  }
}
