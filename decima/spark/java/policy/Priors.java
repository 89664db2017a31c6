package decima.policy;

import java.util.List;
import java.util.Map;

/** How long tasks took in earlier runs of the same queries. */
public final class Priors {
  /** by query and number of tasks: mean of each place; null: its runs do not agree */
  private final Map<String, Map<String, List<Number>>> queries;
  /** by number of tasks alone: mean; null: its runs do not agree */
  private final Map<String, Number> shapes;

  private Priors(
      Map<String, Map<String, List<Number>>> queries, Map<String, Number> shapes) {
    this.queries = queries;
    this.shapes = shapes;
  }

  /** @param json as `decima.spark.priors.Priors.message` makes it. */
  @SuppressWarnings("unchecked")
  public static Priors of(Map<?, ?> json) {
    return new Priors(
        (Map<String, Map<String, List<Number>>>) json.get("queries"),
        (Map<String, Number>) json.get("shapes"));
  }

  /** Kind of match of a stage in earlier runs. */
  enum Match {
    /** by its query, its number of tasks and its place among the query's stages with as many */
    NAME(4.0),
    /** by its number of tasks alone: its query has no distinct name */
    SHAPE(1.0),
    /** what fits does not agree, and is not used */
    AMBIGUOUS(0.0),
    UNKNOWN(0.0);

    /** number of measured tasks that the earlier runs count for */
    final double tasks;

    Match(double tasks) {
      this.tasks = tasks;
    }
  }

  /** Durations of a stage in earlier runs. */
  static final class Prior {
    private static final Prior UNKNOWN = new Prior(Match.UNKNOWN, Double.NaN);
    private static final Prior AMBIGUOUS = new Prior(Match.AMBIGUOUS, Double.NaN);

    final Match match;
    /** of its tasks, over all runs; NaN unless it is a hit */
    final double meanMs;

    private Prior(Match match, double meanMs) {
      this.match = match;
      this.meanMs = meanMs;
    }

    private static Prior of(Match match, Number meanMs) {
      return meanMs == null ? AMBIGUOUS : new Prior(match, meanMs.doubleValue());
    }

    boolean isHit() {
      return match.tasks > 0.0;
    }
  }

  /**
   * Look up a stage in earlier runs. Another query's stages never stand in for those of a query that
   * a person has named.
   *
   * @param known what the job may be known as, best first.
   * @param place how many earlier stages of the job have as many tasks.
   */
  Prior find(List<Queries.Query> known, int numTasks, int place) {
    String size = String.valueOf(numTasks);
    for (Queries.Query query : known) {
      if (queries.containsKey(query.name)) {
        List<Number> places = queries.get(query.name).get(size);
        return places == null
            ? Prior.UNKNOWN
            : Prior.of(Match.NAME, places.get(Math.min(place, places.size() - 1)));
      }
    }
    boolean isNamed = known.stream().anyMatch(query -> query.isGiven);
    return isNamed || !shapes.containsKey(size)
        ? Prior.UNKNOWN
        : Prior.of(Match.SHAPE, shapes.get(size));
  }
}
