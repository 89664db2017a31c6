package decima.spark;

/** What one plan says of one task set: looked up once, and asked at every offer. */
final class PlanEntry {
  static final int UNRANKED = -1;

  final Plan plan;
  /** its place in the order; `UNRANKED` where it was not chosen */
  final int rank;
  /** the plan knows it and has not chosen it */
  final boolean isLeftOut;
  /** slots that its job may hold */
  final int limit;

  PlanEntry(Plan plan, Integer stage, String job) {
    this.plan = plan;
    this.rank = plan.rankOf(stage);
    this.isLeftOut = plan.seen.contains(stage);
    this.limit = plan.limitOf(job);
  }

  boolean isKnown() {
    return rank != UNRANKED || isLeftOut;
  }
}
