package decima.policy;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.NavigableSet;

/**
 * The edges between the stages of a session; another object whenever a job, a stage or an edge came or
 * went. Children come after one another by row.
 */
public final class Graphs {
  private static final double LEAST_MS = 1e-3;

  /** (J + 1,) first row of each job's stages */
  final int[] firstStage;
  /** (S + 1,) first of each stage's children */
  final int[] firstChild;
  /** rows of stages */
  final int[] children;
  /** rows of stages, parents before their children; rows in or behind a cycle are left out */
  final int[] order;
  /** mean duration of a task of these jobs, when a job, a stage or an edge last came or went */
  final double taskMs;
  /** mean work of these jobs at that time */
  final double workMs;

  public Graphs(int[] firstStage, int[] firstChild, int[] children, double taskMs, double workMs) {
    this.firstStage = firstStage;
    this.firstChild = firstChild;
    this.children = children;
    order = sorted(firstChild, children);
    this.taskMs = taskMs;
    this.workMs = workMs;
  }

  /** @param tables with all columns, for the stages in the rows `shown` of each job. */
  private Graphs(List<LiveJob> jobs, List<NavigableSet<Integer>> shown, Tables tables) {
    firstStage = tables.firstStage;
    firstChild = new int[tables.stages() + 1];
    int[][] parents = new int[tables.stages()][];
    double totalMs = 0.0;
    long tasks = 0;
    for (int job = 0; job < jobs.size(); job++) {
      int[] rows = shown.get(job).stream().mapToInt(Integer::intValue).toArray();
      int first = firstStage[job];
      for (int index = 0; index < rows.length; index++) {
        int row = first + index;
        parents[row] =
            jobs.get(job).stages.get(rows[index]).parents.stream()
                .mapToInt(parent -> Arrays.binarySearch(rows, parent))
                .filter(place -> place >= 0)
                .map(place -> first + place)
                .toArray();
        for (int parent : parents[row]) {
          firstChild[parent + 1] += 1;
        }
        totalMs += tables.numTasks[row] * tables.meanMs[row];
        tasks += tables.numTasks[row];
      }
    }
    for (int row = 0; row < tables.stages(); row++) {
      firstChild[row + 1] += firstChild[row];
    }
    int[] place = firstChild.clone();
    children = new int[firstChild[tables.stages()]];
    for (int row = 0; row < tables.stages(); row++) {
      for (int parent : parents[row]) {
        children[place[parent]++] = row;
      }
    }
    order = sorted(firstChild, children);
    taskMs = Math.max(totalMs / Math.max(1, tasks), LEAST_MS);
    workMs = Math.max(totalMs / tables.jobs(), LEAST_MS);
  }

  private static int[] sorted(int[] firstChild, int[] children) {
    int[] parentsLeft = new int[firstChild.length - 1];
    for (int child : children) {
      parentsLeft[child] += 1;
    }
    int[] order = new int[parentsLeft.length];
    int count = 0;
    for (int row = 0; row < order.length; row++) {
      if (parentsLeft[row] == 0) {
        order[count++] = row;
      }
    }
    for (int place = 0; place < count; place++) {
      int row = order[place];
      for (int edge = firstChild[row]; edge < firstChild[row + 1]; edge++) {
        if (--parentsLeft[children[edge]] == 0) {
          order[count++] = children[edge];
        }
      }
    }
    return Arrays.copyOf(order, count);
  }

  /** Keeps the graphs of a session from one plan to the next, until they change. */
  public static final class Cache {
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
        graphs = new Graphs(jobs, shown, tables);
        version = live.version;
        slots = tables.slots;
        this.jobs = jobs;
        this.shown = shown;
      }
      return graphs;
    }
  }
}
